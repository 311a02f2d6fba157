"""What one query may take at most, so that no caller can have all of an instance."""

import time
from collections.abc import Generator, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, fields
from typing import Any

from statestores.errors import InvalidArgumentError, LimitExceededError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an answer may have at most. Whoever needs more asks again, from where it ended."""

    max_rows: int = 10_000
    """Rows of an answer over HTTP, and keys of a batch."""

    max_stream_rows: int = 10_000_000
    """Rows of a stream over Flight, which is not held in memory as a whole: a few batches of about
    4 MiB are, and each may end with a row of any size."""

    max_bytes: int = 64 * 1024 * 1024
    """Bytes of keys and values of an answer that is held in memory: over HTTP, and over Flight one
    to a read of one or of many keys. A stream has no such bound, and gives a larger row too."""

    max_request_bytes: int = 4 * 1024 * 1024
    """Bytes of a question."""

    max_ms: int = 30_000
    """Milliseconds for an answer, waiting for whoever reads it slowly included."""

    max_concurrent: int = 64
    """Queries that run at the same time; the others are told to come back."""

    def __post_init__(self) -> None:
        """Refuse what is no limit.

        Raises:
            InvalidArgumentError: One is no number from 1.
        """
        for each in fields(self):
            value: object = getattr(self, each.name)
            if type(value) is not int or value < 1:
                raise InvalidArgumentError(f"{each.name} must be an int from 1, got {value!r}")


class Deadline:
    """A moment by which an answer has to be complete."""

    __slots__ = ("_at", "_max_ms")

    def __init__(self, max_ms: int) -> None:
        """Set it *max_ms* from now."""
        self._max_ms = max_ms
        self._at = time.monotonic() + max_ms / 1000

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return time.monotonic() >= self._at

    def check(self) -> None:
        """Return while there is time.

        Raises:
            LimitExceededError: There is none left.
        """
        if self.is_over:
            raise LimitExceededError(
                f"the answer took more than {self._max_ms} ms; ask for less at once"
            )


_ROWS_BETWEEN_LOOKS = 256


def within(
    rows: Iterator[tuple[Any, ...]], *, max_rows: int, max_bytes: int | None, deadline: Deadline
) -> Generator[tuple[Any, ...], None, None]:
    """Yield *rows*, whose first two columns are key and value, as far as the limits allow.

    Raises:
        LimitExceededError: They are more, or take longer.
    """
    count = size = 0
    with closing(rows) if isinstance(rows, Generator) else nullcontext():
        for row in rows:
            count += 1
            if count > max_rows:
                raise LimitExceededError(
                    f"the answer has more than {max_rows} rows; give a limit, or a smaller range"
                )
            if max_bytes is not None:
                size += len(row[0] or b"") + len(row[1] or b"")
                if size > max_bytes:
                    raise LimitExceededError(
                        f"the answer has more than {max_bytes} bytes; ask for less at once"
                    )
            if count % _ROWS_BETWEEN_LOOKS == 0:
                deadline.check()
            yield row
