"""How many rows a sweep looks at: three for each row that expires, as it learns from what it finds.

A sweep walks over rows round and round and deletes those that have expired. What it looks at for
each of them decides how many are kept: with three, one in six of the rows has expired, on average
(docs/decisions/0035). How many expire for each row that is written differs from one store to the
next: all of them where keys come once, none where each is put again in time.
"""

ROWS_PER_EXPIRED = 3
"""Rows to look at for each row that expires."""

_REMEMBERED_ROWS = 4096
"""When the share that expires rises, it is taken over this many of the last rows written."""

_LEAST_LEFT = 7 / 8
"""The least that is left of that share after a pass that found little."""


_LEAST_ROWS = 64
"""Fewer are not worth a new iterator: the allowance of small commits adds up to this first."""


class SweepRate:
    """The number of rows to look at for each row written, within bounds. Not stored."""

    __slots__ = (
        "_allowance",
        "_committed",
        "_found",
        "_least",
        "_most",
        "_share",
        "_unseen_rows",
        "_written",
    )

    def __init__(self, *, least: float, most: float) -> None:
        """Begin with *most*, for the worst case."""
        self._least = least
        self._most = most
        self._share = most / ROWS_PER_EXPIRED  # of the rows written, how many expire
        self._allowance = 0.0  # granted, and not spent
        self._unseen_rows = 0  # written since rows were last looked at
        self._written = self._found = 0  # during this pass: rows written, and expired ones
        self.commit()

    def commit(self) -> None:
        """Note that a commit has come about with what was granted, spent and learned for it."""
        self._committed = (
            self._allowance,
            self._share,
            self._unseen_rows,
            self._written,
            self._found,
        )

    def rollback(self) -> None:
        """Go back to the last commit: what was spent since has deleted nothing."""
        self._allowance, self._share, *counts = self._committed
        self._unseen_rows, self._written, self._found = counts

    @property
    def factor(self) -> float:
        """The number of rows to look at for each row written."""
        return min(max(ROWS_PER_EXPIRED * self._share, self._least), self._most)

    def grant(self, written: int, *, besides: int = 0) -> None:
        """Allow rows to be looked at for *written* ones, and *besides* more in any case."""
        self._unseen_rows += written
        self._allowance += self.factor * written + besides

    def spend(self, *, rests: bool) -> int:
        """Return how many rows to look at now, of those that were granted and not looked at yet.

        0 as long as they are few. While the sweep *rests*, none are looked at, and none add up.
        """
        if rests:
            self._allowance = 0.0
        if self._allowance < _LEAST_ROWS:
            return 0
        budget, self._allowance = int(self._allowance), 0.0
        return budget

    def learn(self, found: int, *, is_pass_over: bool) -> None:
        """Note how many expired rows were *found* with what was granted.

        Within a pass the share only grows, since a pass may meet the expired ones anywhere. The
        next pass goes by this one, and falls slowly: the first pass meets few rows that have
        expired, and would otherwise make the next ones wait.
        """
        written, self._unseen_rows = self._unseen_rows, 0
        if written:
            weight = min(1.0, written / _REMEMBERED_ROWS)
            self._share += weight * max(0.0, found / written - self._share)
        self._written += written
        self._found += found
        if is_pass_over:
            share = self._found / max(1, self._written)
            self._share = max(share, self._share * _LEAST_LEFT)
            self._written = self._found = 0
