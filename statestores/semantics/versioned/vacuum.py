"""Superseded versions that have expired are deleted, a bounded number of rows with each commit.

For history rows that this opening knows, it remembers when they end. For others a cursor walks the
history round and round; its place is stored, so a crash or a reopening only pauses it (VRS-15). A
pass is skipped while no row can have expired: `Progress.floor_ms` is below every end. The deletions
are part of the commit's own batch, so no reader waits for them.

A row that has expired can be deleted without looking at it: it is superseded for good, and what
would end a version later than before would have to be put below the horizon. Only a *marker* tells
about another row. Rows without a value may be markers, and are read.
"""

from statestores.failpoints import reach
from statestores.semantics.expiry.due_rows import (
    DELETIONS_PER_COMMIT,
    DELETIONS_PER_WRITE,
    Dated,
    DueRows,
)
from statestores.semantics.expiry.sweep_rate import ROWS_PER_EXPIRED, SweepRate
from statestores.semantics.rows.layout import END, HISTORY
from statestores.semantics.rows.progress import Progress
from statestores.semantics.versioned.rows import (
    DELETED,
    HEADER_BYTES,
    data_key,
    key_of,
    pack_header,
    read_latest,
    start_of,
    unpack_header,
)
from statestores.spi.engine import EngineReader

LEAST_FACTOR = 0.5
"""History rows to visit for each row written when none of them expires. A put of a version writes
two rows: the version, and the one that it supersedes."""

MOST_FACTOR = 3
"""The same when many expire. Measured without learning how many: 1 keeps 1.4 to 2.2 times the ideal
number of rows, 2 keeps 1.1 to 1.3 times, and 4 no fewer at half again the cost."""


_OWED_PER_COMMIT = 16_384
"""How many of the owed rows one commit removes: a batch is in memory."""

_DELETED_ROW = pack_header(DELETED)
"""Above the rows of superseded values, as bytes, and not above those of deletions."""

Rows = dict[bytes, bytes | None]


class Vacuum:
    """The vacuum of one open store."""

    __slots__ = ("_bare", "_due", "_rows", "_spent", "owed", "rate")

    def __init__(self, retention_ms: int, capacity_bytes: int) -> None:
        """Remember rows in up to *capacity_bytes* of memory."""
        self.rate = SweepRate(least=LEAST_FACTOR, most=MOST_FACTOR)
        self._due = DueRows(retention_ms, capacity_bytes)
        self.owed = 0
        """Rows that the next commits may remove in addition, for rows that were committed in
        bulk."""
        self._spent = 0  # of those owed, by a commit that may still fail
        self._bare: set[bytes] = set()  # of the keys that are remembered, those without a value
        self._rows: Rows = {}

    def forget(self) -> None:
        """Forget when rows expire, and a sweep whose commit has not come about.

        The engine may have changed by other means.
        """
        self.rate.rollback()
        self._spent = 0
        self._due.forget()
        self._bare = set()
        self._rows = {}

    def note_commit(self) -> None:
        """Note that what the last sweep was granted is spent, and what it owed is removed."""
        self.rate.commit()
        self.owed -= self._spent
        self._spent = 0

    def end_commit(self) -> None:
        """Note that the engine has the rows of the last sweep."""
        self.note_commit()
        rows, self._rows = self._rows, {}
        if not self._due.has_begun:
            return
        history = HISTORY[0]
        ended = {key: row for key, row in rows.items() if key[0] == history and row is not None}
        dated = None
        if ended:
            # As bytes, headers compare like numbers, and those of deletions are above all others.
            last = max(ended.values())
            if last < _DELETED_ROW:
                first = min(ended.values())
                dated = Dated(
                    ended, _end_of(first), _end_of(last), lambda: map(_end_of, ended.values())
                )
            else:
                ends = {key: _end_of(row) for key, row in ended.items()}
                dated = Dated(ends, min(ends.values()), max(ends.values()), ends.values)
        if self._bare:
            self._bare -= {key for key in self._bare & rows.keys() if rows[key] is None}
        self._due.commit(rows, dated)
        self._keep_bare([key for key, row in ended.items() if len(row) == HEADER_BYTES])

    def _keep_bare(self, keys: list[bytes]) -> None:
        """Remember that *keys* have no value, if they are remembered at all."""
        if keys:
            self._bare.update([key for key in keys if key in self._due])

    def rests(self, progress: Progress, horizon_ms: int) -> bool:
        """Return whether nothing has expired, and nothing is remembered.

        For a commit that leaves it so `rest` stands for `sweep`, and its rows are not looked at.
        """
        return progress.floor_ms > horizon_ms and not self._due.has_begun

    def rest(self) -> None:
        """Note that a commit sweeps nothing."""
        self._rows = {}
        self._spent = self.owed = 0

    def sweep(
        self,
        reader: EngineReader,
        rows: Rows,
        progress: Progress,
        horizon_ms: int,
    ) -> None:
        """Add the deletion of expired rows to *rows*, the batch of a commit."""
        self._rows, self._spent = rows, 0
        if progress.floor_ms > horizon_ms:
            self.owed = 0
            return
        written = len(rows)
        self._spent = besides = min(self.owed, _OWED_PER_COMMIT)
        self.rate.grant(written, besides=ROWS_PER_EXPIRED * besides)
        most = DELETIONS_PER_COMMIT + DELETIONS_PER_WRITE * written
        self._delete_due(reader, rows, horizon_ms, most)
        if budget := self.rate.spend(rests=self._due.is_complete):
            self._walk(reader, rows, progress, horizon_ms, budget)
        reach("vacuum.swept")

    def _delete_due(self, reader: EngineReader, rows: Rows, horizon_ms: int, most: int) -> None:
        """Delete up to *most* rows that are known to have expired."""
        if not self._bare:
            self._due.take(rows, horizon_ms, most)
            return
        found: Rows = {}
        due = self._due.take(found, horizon_ms, most)
        bare = [key for key in due if key in self._bare and key not in rows]
        for row_key, row in zip(bare, reader.get_many(bare), strict=True):
            if row is not None and _end_of_kept(reader, rows, row_key, row, horizon_ms) is not None:
                del found[row_key]  # it comes again
        for row_key in found:
            rows.setdefault(row_key)

    def _walk(
        self,
        reader: EngineReader,
        rows: Rows,
        progress: Progress,
        horizon_ms: int,
        budget: int,
    ) -> None:
        """Look at *budget* rows, from where the last walk ended."""
        expired, pass_floor = 0, progress.pass_floor_ms
        learned: dict[bytes, int] = {}
        bare: list[bytes] = []
        if progress.cursor == HISTORY:
            self._due.begin_pass()
        learns = self._due.learns
        for row_key, row in progress.walk(reader, HISTORY, END, budget):
            if row_key in rows:
                continue  # written just now, and counted by the floor
            end = _end_of_kept(reader, rows, row_key, row, horizon_ms)
            if end is None:
                expired += 1
                continue
            pass_floor = min(pass_floor, end)
            if learns:
                learned[row_key] = end
                if len(row) == HEADER_BYTES:
                    bare.append(row_key)
        is_pass_over = progress.end_walk(HISTORY, pass_floor)
        self.rate.learn(expired, is_pass_over=is_pass_over)
        self._due.learn(learned)
        self._keep_bare(bare)
        if is_pass_over:
            self._due.end_pass()


def _end_of(row: bytes) -> int:
    """Return when the version of a history row ends."""
    header: int = unpack_header(row)[0]
    return header & ~DELETED


def _end_of_kept(
    reader: EngineReader, rows: Rows, row_key: bytes, row: bytes, horizon_ms: int
) -> int | None:
    """Return when the version of a row ends, or ``None`` once its deletion is among *rows*."""
    header: int = unpack_header(row)[0]
    end = header & ~DELETED
    if end > horizon_ms:
        return end
    if header != DELETED | start_of(row_key):
        rows[row_key] = None
        return None
    return None if _expire_deletion(reader, rows, row_key, end, horizon_ms) else end


def _expire_deletion(
    reader: EngineReader,
    rows: Rows,
    marker: bytes,
    start_ms: int,
    horizon_ms: int,
) -> bool:
    """Delete a latest deletion by its marker, unless a put can still be older than it."""
    if start_ms >= horizon_ms:
        return False
    latest = data_key(key_of(marker))
    if latest in rows:
        return False  # superseded in this very commit, which rewrites the marker
    stored = reader.get(latest)
    if stored is not None and read_latest(stored).valid_from_ms == start_ms:
        rows[latest] = None
    rows[marker] = None
    return True
