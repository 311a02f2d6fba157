"""The rows of a store as a command prints them: decoded, with their times and their partition."""

from collections.abc import Iterator
from typing import Any

from statestores.cli.columns import Column
from statestores.cli.decoding import Decoder
from statestores.cli.output import Output
from statestores.cli.time_columns import TIME_COLUMNS, times_of
from statestores.reading.records import Record
from statestores.spi.specification import StoreSpecification

_KEY = Column("key", "key")
_VALUE = Column("value", "value")
_PARTITION = Column("partition", "partition")


def print_records(
    output: Output,
    specification: StoreSpecification[Any, Any],
    records: Iterator[tuple[Record, int | None]],
    limit: int,
    *,
    raw: bool,
) -> int:
    """Print *records*, decoded, and return how many there were."""
    decoder = Decoder(specification, raw=raw)
    times = TIME_COLUMNS.get(specification.kind, ())
    rows = (
        (
            decoder.key(record.key),
            decoder.value(record.value),
            *times_of(record, specification),
            partition,
        )
        for record, partition in records
    )
    return output.rows((_KEY, _VALUE, *times, _PARTITION), rows, limit=limit)
