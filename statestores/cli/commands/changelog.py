"""The command `changelog`: what was written, in the order in which it was."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from statestores.changelog import ChangelogReader, Frame, FrameKind, change_schema
from statestores.changelog.rows import number_columns
from statestores.cli.arguments import (
    DEFAULT_LIMIT,
    JsonOption,
    LimitOption,
    RawOption,
    StoreOption,
)
from statestores.cli.decoding import Decoder
from statestores.cli.locations import choose_store
from statestores.cli.output import Column, Output, time_column
from statestores.errors import InvalidArgumentError, StoreNotFoundError
from statestores.partition_reader import PartitionReader
from statestores.reading.locations import (
    ChangelogDirectory,
    Location,
    Partition,
    Root,
    SnapshotDirectory,
    locate,
)
from statestores.spi.specification import StoreSpecification

_ROWS_AT_ONCE = 1_024

_OFFSET = Column("offset", "offset")
_OPERATION = Column("operation", "operation")
_KEY = Column("key", "key")
_VALUE = Column("value", "value")
_PARTITION = Column("partition", "partition")


class _Change(NamedTuple):
    """One change as it is stored."""

    offset: int
    partition: int | None
    operation: str
    key: bytes | None
    value: bytes | None
    numbers: tuple[int | None, ...] = ()
    """Times, and the sequence of a duplicate: the further columns of the kind's changes."""


def changelog(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A state root, one of its stores, a partition, or a changelog."
        ),
    ],
    *,
    from_offset: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="From this offset on; by default the first one that is there."
        ),
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option(metavar="N", help="Up to, and without, this offset.")
    ] = None,
    partition: Annotated[int | None, typer.Option(metavar="N", help="This partition only.")] = None,
    limit: LimitOption = DEFAULT_LIMIT,
    store: StoreOption = None,
    raw: RawOption = False,
    json: JsonOption = False,
) -> None:
    """Print the changes of a changelog, in its order; of several partitions one after the other.

    Example: statestores changelog state/planes/0 --from-offset 1000 --limit 5
    """
    output = Output(json=json)
    sources = _sources(locate(path), store, partition)
    if len(sources) > 1 and (from_offset is not None or to_offset is not None):
        raise InvalidArgumentError(
            "an offset is one of a single partition; name it with --partition"
        )
    kind, specification = sources[0].kind, sources[0].specification
    decoder = Decoder(specification, raw=raw)
    changes = chain.from_iterable(source.changes(from_offset, to_offset) for source in sources)
    numbers = [_number_column(each.name) for each in number_columns(change_schema(kind))]
    columns = [_OFFSET, _OPERATION, *numbers, _KEY, _VALUE, _PARTITION]
    rows = (_row(change, decoder, len(numbers)) for change in changes)
    if not output.rows(columns, rows, limit=limit):
        output.remark("no changes")


class _Source:
    """One changelog."""

    def __init__(
        self,
        kind: str,
        specification: StoreSpecification[Any, Any] | None,
        reader: PartitionReader | None,
        directory: Path,
        number: int | None,
    ) -> None:
        self.kind = kind
        self.specification = specification
        self._reader = reader
        self._directory = directory
        self._number = number

    def changes(self, from_offset: int | None, to_offset: int | None) -> Iterator[_Change]:
        """Yield the changes of a range."""
        if self._reader is not None:
            for batch in self._reader.changes(from_offset, to_offset, typed=False):
                for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                    rows = batch.slice(start, _ROWS_AT_ONCE).columns
                    for change in zip(*(column.to_pylist() for column in rows), strict=True):
                        offset, number, operation, key, value, *numbers = change
                        yield _Change(offset, number, operation, key, value, tuple(numbers))
            return
        with ChangelogReader.open(self._directory) as log:
            for frame in log.read(from_offset, to_offset):
                yield from _changes_of(frame, self._number)


def _sources(location: Location, store: str | None, partition: int | None) -> list[_Source]:
    """Return the changelogs at *location*.

    Raises:
        StoreNotFoundError: There are none.
        InvalidArgumentError: It is a snapshot, or has no such partition.
    """
    match location:
        case Root():
            name = choose_store(location, store)
            partitions = location.partitions(name)
            if partition is not None:
                location.root.partition(name, partition)  # refuses a number that there is not
                partitions = [partitions[partition]]
            return [_source_of(each) for each in partitions]
        case Partition():
            return [_source_of(location)]
        case ChangelogDirectory():
            if location.partition is not None:
                return [_source_of(location.partition)]
            return [_by_itself(location.path)]
        case SnapshotDirectory():
            raise InvalidArgumentError(
                f"{str(location.path)!r} is a snapshot, which has rows and no changes; use scan"
            )


def _source_of(partition: Partition) -> _Source:
    """Return the changelog of *partition*."""
    if partition.specification is None:
        return _by_itself(partition.directory.changelog)
    if partition.has_engine and not partition.has_changelog:
        raise StoreNotFoundError(
            f"{str(partition.path)!r} has an engine and no changelog; use scan"
        )
    specification = partition.specification
    reader = PartitionReader(partition.directory, specification)
    path = partition.directory.changelog
    return _Source(specification.kind, specification, reader, path, partition.number)


def _by_itself(path: Path) -> _Source:
    """Return a changelog of which nobody says what its bytes mean."""
    with ChangelogReader.open(path) as log:
        return _Source(log.store_kind, None, None, path, None)


def _changes_of(frame: Frame, number: int | None) -> Iterator[_Change]:
    """Yield the changes of *frame*."""
    if frame.kind is FrameKind.CLEAR:
        yield _Change(frame.base_offset, number, "clear", None, None)
        return
    columns = [column.to_pylist() for column in frame.batch.columns]
    for offset, key, value, *numbers in zip(frame.offsets, *columns, strict=True):
        operation = "delete" if value is None else "put"
        yield _Change(offset, number, operation, key, value, tuple(numbers))


def _number_column(name: str) -> Column:
    """Return how the column *name* of changes is shown."""
    if name == "sequence":
        return Column(name, name)
    return time_column(f"{name}_ms", name.replace("_", " "))


def _row(change: _Change, decoder: Decoder, numbers: int) -> tuple[Any, ...]:
    """Return the cells of *change*."""
    key = None if change.key is None else decoder.key(change.key)
    value = None if change.value is None else decoder.value(change.value)
    cells = change.numbers or (None,) * numbers  # a clear has none
    return (change.offset, change.operation, *cells, key, value, change.partition)
