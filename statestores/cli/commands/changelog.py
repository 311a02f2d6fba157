"""The command `changelog`: what was written, in the order in which it was."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
import typer

from statestores.changelog import ChangelogReader, change_schema
from statestores.changelog.rows import number_columns
from statestores.cli.arguments import (
    DEFAULT_LIMIT,
    JsonOption,
    LimitOption,
    RawOption,
    StoreOption,
)
from statestores.cli.decoding import Decoder
from statestores.cli.locations import choose_store, locate_store
from statestores.cli.output import Column, Output, time_column
from statestores.errors import InvalidArgumentError, StoreNotFoundError
from statestores.reading.change_feed import described
from statestores.reading.locations import (
    ChangelogDirectory,
    Location,
    Partition,
    Root,
    SnapshotDirectory,
)
from statestores.reading.partition_reader import PartitionReader
from statestores.reading.records import rows_of
from statestores.spi.specification import StoreSpecification

_OFFSET = Column("offset", "offset")
_OPERATION = Column("operation", "operation")
_KEY = Column("key", "key")
_VALUE = Column("value", "value")
_PARTITION = Column("partition", "partition")


class _Source(NamedTuple):
    """One changelog."""

    kind: str
    """Of the store; it says which columns there are."""

    specification: StoreSpecification[Any, Any] | None
    """What the store is, where anything says so."""

    changes: Callable[[int | None, int | None], Iterator[pa.RecordBatch]]
    """Gives the changes from one offset up to another one, as bytes."""


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
    sources = _sources(locate_store(path, store), store, partition)
    if len(sources) > 1 and (from_offset is not None or to_offset is not None):
        raise InvalidArgumentError(
            "an offset is one of a single partition; name it with --partition"
        )
    kind, specification = sources[0].kind, sources[0].specification
    decoder = Decoder(specification, raw=raw)
    batches = chain.from_iterable(source.changes(from_offset, to_offset) for source in sources)
    numbers = [_number_column(each.name) for each in number_columns(change_schema(kind))]
    columns = [_OFFSET, _OPERATION, *numbers, _KEY, _VALUE, _PARTITION]
    rows = (_row(change, decoder) for change in rows_of(batches))
    if not output.rows(columns, rows, limit=limit):
        output.remark("no changes")


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
                location.root.partition(name, partition)  # refuses a number that does not exist
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
    return _Source(specification.kind, specification, partial(reader.changes, typed=False))


def _by_itself(path: Path) -> _Source:
    """Return a changelog with nothing to say what its bytes mean."""
    with ChangelogReader.open(path) as log:
        return _Source(log.store_kind, None, partial(_changes_in, path))


def _changes_in(
    path: Path, from_offset: int | None, to_offset: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of the changelog in *path*."""
    with ChangelogReader.open(path) as log:
        for frame in log.read(from_offset, to_offset):
            yield described(frame, log.store_kind, None)


def _number_column(name: str) -> Column:
    """Return how the column *name* of changes is shown."""
    if name == "sequence":
        return Column(name, name)
    return time_column(f"{name}_ms", name.replace("_", " "))


def _row(change: tuple[Any, ...], decoder: Decoder) -> tuple[Any, ...]:
    """Return the cells of *change*; a clear has no key and no numbers."""
    offset, partition, operation, key, value, *numbers = change
    shown_key = None if key is None else decoder.key(key)
    shown_value = None if value is None else decoder.value(value)
    return (offset, operation, *numbers, shown_key, shown_value, partition)
