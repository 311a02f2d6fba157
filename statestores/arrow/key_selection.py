"""Which keys a reader wants, as bytes: one mask for changes, bounds for what is sorted."""

from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

_HIGHEST = 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySelection:
    """The keys with ``first <= key <= last`` and ``key < stop``; ``None`` leaves a side open."""

    first: bytes | None = None
    """No key below it."""

    last: bytes | None = None
    """No key above it."""

    stop: bytes | None = None
    """No key at or above it: the end of a prefix, which no inclusive bound can give."""

    @classmethod
    def prefix(cls, prefix: bytes) -> Self:
        r"""Select the keys that begin with *prefix*.

        >>> KeySelection.prefix(b"a\xff")
        KeySelection(first=b'a\xff', last=None, stop=b'b')
        """
        kept = prefix.rstrip(bytes((_HIGHEST,)))
        return cls(first=prefix, stop=kept[:-1] + bytes((kept[-1] + 1,)) if kept else None)

    def both(self, other: "KeySelection") -> "KeySelection":
        """Return the keys that this selection and *other* have in common."""
        return KeySelection(
            first=_highest(self.first, other.first),
            last=_lowest(self.last, other.last),
            stop=_lowest(self.stop, other.stop),
        )

    @property
    def everything(self) -> bool:
        """Whether no key is left out."""
        return self.first is None and self.last is None and self.stop is None

    @property
    def bounds(self) -> tuple[bytes | None, bytes | None]:
        """The lowest and the highest key that can be selected, both inclusive."""
        return self.first, _lowest(self.last, self.stop)

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
        return rows


def _highest(one: bytes | None, other: bytes | None) -> bytes | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _lowest(one: bytes | None, other: bytes | None) -> bytes | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
