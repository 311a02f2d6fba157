"""Filters of a query that Spark offers, as a selection of keys and as masks over times.

A filter is taken only where it is applied exactly, for Spark does not look at the rows again. Keys
are compared as bytes, so only filters on keys whose bytes are equal, and sorted, as Spark says that
the values are; times are compared as the timestamps that Spark is given.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from statestores.errors import SerializationError
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.serde import Serde

if TYPE_CHECKING:
    import pyarrow as pa

    from statestores.arrow.key_selection import KeySelection

_TYPES: Final[dict[str, type]] = {
    "bytes": bytes,
    "utf8": str,
    "int64": int,
    "int64_sorted": int,
}
"""The serdes whose keys are equal where their bytes are, and the type of Spark's literals.

Not those of floats, of which -0.0 equals 0.0 and one NaN another, nor of JSON, whose text may be
spelled in several ways.
"""

_TEXT: Final = frozenset({"bytes", "utf8"})
_COMPARISONS: Final = {
    EqualTo: "equal",
    EqualNullSafe: "equal",
    GreaterThan: "greater",
    GreaterThanOrEqual: "greater_equal",
    LessThan: "less",
    LessThanOrEqual: "less_equal",
}


@dataclass(frozen=True, slots=True)
class TimeFilter:
    """A comparison of a column of times with one time."""

    column: str
    """The column."""

    comparison: str
    """A function of `pyarrow.compute`."""

    moment: datetime
    """What it is compared with."""

    def apply(self, rows: "pa.RecordBatch") -> "pa.RecordBatch":
        """Return the *rows*, in Spark's types, for which it is true; a null time is not."""
        import pyarrow as pa  # noqa: PLC0415  # workers import this module often
        import pyarrow.compute as pc  # noqa: PLC0415  # the same

        column = rows.column(self.column)
        compare = getattr(pc, self.comparison)
        return rows.filter(compare(column, pa.scalar(self.moment, column.type)))


def key_filter(pushed: Filter, key_serde: Serde[Any] | None) -> "KeySelection | None":
    """Return the keys that *pushed* lets pass; ``None`` where bytes cannot say it exactly."""
    from statestores.arrow.key_selection import KeySelection  # noqa: PLC0415  # needs pyarrow

    serde = serde_or_raw(key_serde)
    value = getattr(pushed, "value", None)
    if getattr(pushed, "attribute", None) != ("key",) or serde.name not in _TYPES:
        return None
    if isinstance(pushed, In):
        # A null among the values makes the filter null for other keys, which lets none pass.
        points = [_bytes_of(each, serde) for each in value or () if each is not None]
        known = [point for point in points if point is not None]
        return KeySelection.of(known) if len(known) == len(points) else None
    key = _bytes_of(value, serde)
    if key is None:
        return None
    if isinstance(pushed, EqualTo | EqualNullSafe):
        return KeySelection(first=key, last=key)
    if isinstance(pushed, StringStartsWith):
        return KeySelection.prefix(key) if serde.name in _TEXT else None
    if not serde.sorted:
        return None
    return {
        GreaterThan: KeySelection(first=key + b"\x00"),  # the lowest key above it
        GreaterThanOrEqual: KeySelection(first=key),
        LessThan: KeySelection(stop=key),
        LessThanOrEqual: KeySelection(last=key),
    }.get(type(pushed))


def time_filter(pushed: Filter, columns: Iterable[str]) -> TimeFilter | None:
    """Return the mask that *pushed* is over one of *columns* of times; ``None`` if it is none."""
    comparison = _COMPARISONS.get(type(pushed))
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    value = getattr(pushed, "value", None)
    if comparison is None or len(path) != 1 or path[0] not in set(columns):
        return None
    # A timestamp of Spark's is a moment; what has no zone is of another type.
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return TimeFilter(path[0], comparison, value)


def _bytes_of(value: object, serde: Serde[Any]) -> bytes | None:
    """Return the bytes of a literal; ``None`` when it is no key of the serde's."""
    if type(value) is bytearray:
        value = bytes(value)
    if type(value) is not _TYPES[serde.name]:
        return None
    try:
        return serde.encode(value)
    except SerializationError:
        return None
