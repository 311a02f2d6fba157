"""Records and changes as columns: what columnar operators are given, and give on."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from statestores.processing.change import Change
from statestores.processing.columns.column import Column, Numbers
from statestores.processing.record import Headers, Record
from statestores.processing.record_rows import headers_of
from statestores.processing.serdes import header_bytes


class RecordColumns:
    """Records as columns. *rows* says of which row of the input each was made."""

    __slots__ = ("headers", "key", "rows", "times", "value")

    def __init__(
        self, key: Column, value: Column, times: Numbers, headers: pa.Array | None, rows: Numbers
    ) -> None:
        """Have the columns given; *headers* are packed (PRC-48), or ``None`` if no row has any."""
        self.key = key
        self.value = value
        self.times = times
        self.headers = headers
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def last_ms(self) -> int:
        """The highest time; -1 without records."""
        return int(self.times.max(initial=-1))

    def take(self, places: Numbers) -> "RecordColumns":
        """Return the records at *places*."""
        return RecordColumns(
            self.key.take(places),
            self.value.take(places),
            self.times[places],
            headers_at(self.headers, places),
            self.rows[places],
        )

    def with_key(self, key: Column) -> "RecordColumns":
        """Return the records with other keys."""
        return RecordColumns(key, self.value, self.times, self.headers, self.rows)

    def with_value(self, value: Column) -> "RecordColumns":
        """Return the records with other values."""
        return RecordColumns(self.key, value, self.times, self.headers, self.rows)

    def items(self) -> Iterator[tuple[int, Record[Any, Any]]]:
        """Iterate over the records, each with its row of the input."""
        return zip(self.rows.tolist(), map(Record._make, self.fields()), strict=True)

    def fields(self) -> Iterator[tuple[Any, Any, int, Headers]]:
        """Iterate over the fields of the records."""
        headers = headers_of(self.headers, len(self))
        parts = (self.key.objects(), self.value.objects(), self.times.tolist(), headers)
        return zip(*parts, strict=False)  # no headers at all are an endless column


class ChangeColumns:
    """Changes of a table as columns."""

    __slots__ = ("headers", "key", "new", "old", "rows", "times")

    def __init__(
        self,
        key: Column,
        new: Column,
        old: Column,
        times: Numbers,
        headers: pa.Array | None,
        rows: Numbers,
    ) -> None:
        """Have the columns given."""
        self.key = key
        self.new = new
        self.old = old
        self.times = times
        self.headers = headers
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def items(self) -> Iterator[tuple[int, Change]]:
        """Iterate over the changes, each with the row of the input that it came with."""
        headers = headers_of(self.headers, len(self))
        values = (self.new.objects(), self.old.objects())
        parts = (self.key.objects(), *values, self.times.tolist(), headers)
        return zip(self.rows.tolist(), map(Change, *parts), strict=True)


Columns: TypeAlias = RecordColumns | ChangeColumns


def columns_of(records: list[Record[Any, Any]], rows: Numbers) -> RecordColumns:
    """Return *records*, at least one, as columns; *rows* says of which input each was made."""
    keys, values, times, headers = map(list, zip(*records, strict=True))
    packed = pa.array([header_bytes(each) if each else None for each in headers], pa.binary())
    return RecordColumns(
        Column(None, objects=keys),
        Column(None, objects=values),
        np.array(times, np.int64),
        None if packed.null_count == len(packed) else packed,
        rows,
    )


def headers_at(headers: pa.Array | None, places: Numbers) -> pa.Array | None:
    """Return the packed headers of *places*."""
    return None if headers is None else headers.take(pa.array(places))


def places_of(flags: Any) -> Numbers:
    """Return where *flags* are true."""
    return np.flatnonzero(flags)
