"""An ordered map of bytes: a dict for the values and a sorted list for the order of its keys.

Invariant: the list holds exactly the keys of the dict, in ascending order. Python compares bytes
as the contract does (ENG-4): unsigned, lexicographic, a strict prefix first.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import Self

_FEW = 16
"""One key in this many is few: then single insertions beat building the list anew."""


class Content:
    """The pairs of one engine at one instant, or from then on while nobody else holds it."""

    __slots__ = ("_undo", "keys", "values")

    def __init__(self, keys: list[bytes], values: dict[bytes, bytes]) -> None:
        self.keys = keys
        self.values = values
        self._undo: tuple[Mapping[bytes, bytes | None], dict[bytes, bytes]] | None = None
        """The batch that is being applied, and what its keys had before."""

    def copy(self) -> Self:
        """Return the same pairs, to be changed apart from these."""
        return type(self)(self.keys.copy(), self.values.copy())

    def bounds(self, start: bytes, stop: bytes | None) -> range:
        """Return the indexes of the keys with ``start <= key < stop``; none when inverted."""
        return range(
            bisect_left(self.keys, start),
            len(self.keys) if stop is None else bisect_left(self.keys, stop),
        )

    def pair(self, index: int) -> tuple[bytes, bytes]:
        """Return the pair at *index* in key order."""
        key = self.keys[index]
        return key, self.values[key]

    def update(self, batch: Mapping[bytes, bytes | None]) -> None:
        """Put and delete what *batch* says. Requires: its keys and values are bytes."""
        values = self.values
        self._undo = batch, {key: values[key] for key in batch if key in values}
        try:
            self._change(batch)
        except BaseException:  # an interrupt: a batch is here whole, or not at all (ENG-7)
            self.undo()
            raise
        self._undo = None

    def undo(self) -> None:
        """Take back what a batch has changed so far that was not applied to its end."""
        if self._undo is not None:
            batch, before = self._undo
            values = self.values
            for key in batch:
                values.pop(key, None)
            values.update(before)
            self.keys = sorted(values)
            self._undo = None

    def _change(self, batch: Mapping[bytes, bytes | None]) -> None:
        values = self.values
        added = [key for key, value in batch.items() if value is not None and key not in values]
        removed = [key for key, value in batch.items() if value is None and key in values]
        for key, value in batch.items():
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        if (len(added) + len(removed)) * _FEW > len(self.keys):
            self.keys = sorted(values)
            return
        for key in removed:
            del self.keys[bisect_left(self.keys, key)]
        for key in added:
            insort(self.keys, key)
