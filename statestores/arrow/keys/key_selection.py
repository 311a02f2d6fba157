"""Which keys a reader wants, as bytes: one mask for changes, bounds for what is sorted."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

_HIGHEST = 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySelection:
    """The keys with ``first <= key <= last`` and ``key < stop``, of `points` if there are any.

    ``None`` leaves a side open.
    """

    first: bytes | None = None
    """No key below it."""

    last: bytes | None = None
    """No key above it."""

    stop: bytes | None = None
    """No key at or above it: the end of a prefix, which no inclusive bound can give."""

    points: tuple[bytes, ...] | None = None
    """Only these keys, which ascend."""

    @classmethod
    def of(cls, keys: Iterable[bytes]) -> Self:
        r"""Select these *keys*.

        >>> KeySelection.of([b"b", b"a", b"b"]).points
        (b'a', b'b')
        """
        return cls(points=tuple(sorted(set(keys))))

    @classmethod
    def prefix(cls, prefix: bytes) -> Self:
        r"""Select the keys that begin with *prefix*.

        >>> KeySelection.prefix(b"a\xff")
        KeySelection(first=b'a\xff', last=None, stop=b'b', points=None)
        """
        kept = prefix.rstrip(bytes((_HIGHEST,)))
        return cls(first=prefix, stop=kept[:-1] + bytes((kept[-1] + 1,)) if kept else None)

    def both(self, other: "KeySelection") -> "KeySelection":
        """Return the keys that this selection and *other* have in common."""
        points = self.points if other.points is None else other.points
        if self.points is not None and other.points is not None:
            points = tuple(sorted(set(self.points) & set(other.points)))
        return KeySelection(
            first=_highest(self.first, other.first),
            last=_lowest(self.last, other.last),
            stop=_lowest(self.stop, other.stop),
            points=points,
        )

    @property
    def everything(self) -> bool:
        """Whether no key is left out."""
        return (
            self.first is None and self.last is None and self.stop is None and self.points is None
        )

    @property
    def nothing(self) -> bool:
        """Whether it is certain that no key is selected."""
        first, last = self.bounds
        if self.points is not None and not self.points:
            return True
        if first is None:
            return self.stop == b""
        return (last is not None and first > last) or (self.stop is not None and first >= self.stop)

    @property
    def bounds(self) -> tuple[bytes | None, bytes | None]:
        """The lowest and the highest key that can be selected, both inclusive."""
        first, last = self.first, _lowest(self.last, self.stop)
        if self.points:
            return _highest(first, self.points[0]), _lowest(last, self.points[-1])
        return first, last

    def may_be_between(self, lowest: bytes, highest: bytes | None) -> bool:
        """Return whether a selected key can lie between *lowest* and *highest*, both inclusive.

        ``None`` says nothing about the highest.
        """
        first, last = self.bounds
        if last is not None and last < lowest:
            return False
        if first is not None and highest is not None and first > highest:
            return False
        if self.points is None:
            return True
        place = bisect_left(self.points, lowest)
        return place < len(self.points) and (highest is None or self.points[place] <= highest)

    def filter(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the *rows* whose ``key`` is selected."""
        keys = rows.column("key")
        for bound, compare in (
            (self.first, pc.greater_equal),
            (self.last, pc.less_equal),
            (self.stop, pc.less),
        ):
            if bound is not None:
                rows = rows.filter(compare(keys, pa.scalar(bound, keys.type)))
                keys = rows.column("key")
        if self.points is not None:
            rows = rows.filter(pc.is_in(keys, value_set=pa.array(self.points, keys.type)))
        return rows


def _highest(one: bytes | None, other: bytes | None) -> bytes | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _lowest(one: bytes | None, other: bytes | None) -> bytes | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
