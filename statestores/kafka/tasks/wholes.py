"""When a store is written whole into its changelog of frames, and what that makes superfluous.

A log of frames is not compacted. So that it has an end, the owner writes all of a store now and
then, and what lies before may be deleted (KFK-28).
"""

_LEAST_BYTES = 64 << 20
"""Frames of so many bytes are always kept: less is not worth writing a store for."""

_GROWTH = 2
"""How many times the last whole may come behind it in changes."""

_MOST_OFFSETS = 200_000
"""How many offsets may come behind a whole: some three hours of ten commits a second. It bounds a
log also where many owners each write little."""


class Wholes:
    """How much a changelog has behind its last whole, as far as this owner knows."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._counted_from = 0
        """The offset from which what comes behind a whole is counted."""
        self._bytes = 0
        self._whole_bytes = 0
        self._first: int | None = None
        self._is_complete = False
        self.superfluous = 0
        """What lies before this offset is repeated by a whole that is committed."""

    def begin(self, start: int) -> None:
        """Note that the changelog begins at *start*, with a whole if not at 0."""
        self._counted_from = start

    def is_due(self, next_offset: int) -> bool:
        """Whether a whole is to be written, by an owner whose changes go to *next_offset*."""
        return (
            self._bytes >= max(_LEAST_BYTES, _GROWTH * self._whole_bytes)
            or next_offset - self._counted_from >= _MOST_OFFSETS
        )

    def changed(self, size: int) -> None:
        """Note changes of *size* bytes."""
        self._bytes += size

    def written(self, size: int) -> None:
        """Note a whole of *size* bytes."""
        self._bytes, self._whole_bytes = 0, size
        self._is_complete = True

    def given_up(self, size: int, next_offset: int) -> None:
        """Note *size* bytes of a whole that took too long, and is for nobody.

        The next one is due when as much has come again as if it were one: what was written of it
        is itself a part of what makes the changelog grow.
        """
        self._bytes, self._whole_bytes = 0, size
        self._counted_from = next_offset
        self._is_complete = False

    def begins_at(self, offset: int) -> None:
        """Note where the whole of the transaction under way begins."""
        self._first = offset

    def committed(self) -> None:
        """Note that the transaction is committed."""
        if self._first is not None and self._is_complete:
            self._counted_from = self.superfluous = self._first
        self._first = None

    def taken_back(self) -> None:
        """Note that it is not."""
        self._first = None
