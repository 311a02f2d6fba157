"""The command `import`: the rows of an Arrow or Parquet file into a store."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from statestores.arrow.encoded_changes import changes_from_encoded
from statestores.arrow.files.importing import RowsFile, import_file, open_rows_file
from statestores.arrow.progress import Meter, ProgressCallback
from statestores.arrow.typed_columns import encode_rows
from statestores.cli.arguments import (
    BackendOption,
    JsonOption,
    StoreOption,
    duration_option,
    parse_backend_options,
)
from statestores.cli.importing.taking_over import SkipOption
from statestores.cli.locations import choose_store
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError, StoreNotFoundError
from statestores.files.local_path import local_path
from statestores.migration import import_as_versioned
from statestores.migration.target_root import importing_root
from statestores.opening import open_existing
from statestores.reading.locations import Partition, Root, locate
from statestores.root_document import StoreEntry
from statestores.serdes import specification_from_description
from statestores.staging.staged_write import create_at_once, write_at_once
from statestores.state_root import StateRoot, is_state_root

_CREATE = "create it in Python: StateRoot.create(path).add_store(specification, partitions=...)"


class AsKind(Enum):
    """What a store without times of its own can become."""

    VERSIONED = "versioned"


@dataclass(frozen=True, slots=True)
class _Imported:
    """What an import has done."""

    store: str
    rows: int
    partitions: int


def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="An Arrow IPC or Parquet file with the columns "
            "key and value, and the times of the store's kind, such as valid_from; with --as "
            "versioned a key-value store of a state root, such as state/rates.",
        ),
    ],
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A state root, one of its stores, or the directory of a store."
        ),
    ],
    *,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Of a store that is created; by default 1."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop what the store holds, in the same step.")
    ] = False,
    store: StoreOption = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Keys and values of a file from elsewhere are bytes already."),
    ] = False,
    as_: Annotated[
        AsKind | None,
        typer.Option("--as", help="Make a versioned store of a key-value store's changelog."),
    ] = None,
    history_retention: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --as versioned: how far history goes back, as 7d."),
    ] = None,
    skip_existing: SkipOption = False,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """WRITES: put the rows of a file into a store; rows without a value delete.

    Into a state root all rows are imported or none. They go through the changelog, to the
    partitions that their keys belong to. A store that is not there yet is created as the file
    describes it, and the state root with it. Versions, windows and sessions are put
    in the order of time. A directory
    with an engine and no changelog is imported into batch by batch.

    Example: statestores import planes.parquet state/ --partitions 4
    """
    output = Output(json=json)
    options = parse_backend_options(backend_option)
    if as_ is not None:
        if partitions is not None or replace or raw:
            raise InvalidArgumentError(
                "--as versioned keeps partitions and serdes as they are, in a new store; leave "
                "--partitions, --replace and --raw out"
            )
        versions = _as_versioned(
            output, file, path, store, history_retention, options, skip_existing=skip_existing
        )
        _say(output, versions)
        return
    if history_retention is not None or skip_existing:
        raise InvalidArgumentError(
            "--history-retention and --skip-existing belong to --as versioned; leave them out"
        )
    typed = False if raw else None
    with output.progress("importing") as progress:
        target = _target(path)
        if isinstance(target, Partition):
            if partitions is not None or replace or store is not None:
                raise InvalidArgumentError(
                    "--partitions, --replace and --store are for state roots, and "
                    f"{path!r} is a directory of one store"
                )
            done = _into_engine(target, file, options, progress, typed=typed)
        else:
            with open_rows_file(file) as rows, _root_at(path, target, rows) as root:
                entry = _store_for(root, rows, store, partitions)
                done = _into_root(root.root, entry, rows, progress, replace=replace, typed=typed)
    _say(output, done)


def _say(output: Output, done: _Imported) -> None:
    if output.json:
        output.document({"store": done.store, "rows": done.rows, "partitions": done.partitions})
    else:
        output.line(f"{done.rows:,} rows into {done.store!r}, partitions: {done.partitions}")


def _as_versioned(
    output: Output,
    source: Path,
    path: str,
    name: str | None,
    history_retention: str | None,
    options: dict[str, object],
    *,
    skip_existing: bool,
) -> _Imported:
    """Make a versioned store of the changelog of the key-value store at *source*.

    Raises:
        InvalidArgumentError: The source is no such store, or the retention is missing.
    """
    if history_retention is None:
        raise InvalidArgumentError(
            "--history-retention TIME is missing: how far the history goes back, as 7d"
        )
    location = locate(source)
    if not isinstance(location, Root):
        raise InvalidArgumentError(
            f"{str(source)!r} is no store of a state root, and only those have the changelog that "
            "says what they held and when; give one, such as state/rates"
        )
    with output.progress("importing") as progress:
        done = import_as_versioned(
            location.root.path,
            choose_store(location, None),
            path,
            history_retention_ms=duration_option("--history-retention", history_retention),
            name=name,
            options=options,
            skip_existing=skip_existing,
            progress=progress,
        )
    return _Imported(done[0].store, sum(each.rows for each in done), len(done))


def _target(path: str) -> Root | Partition | None:
    """Return where to import to; ``None`` when there is nothing yet.

    Raises:
        InvalidArgumentError: It is something that cannot be imported into.
    """
    place = local_path(path)
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        if is_state_root(place.absolute().parent):
            raise StoreNotFoundError(
                f"there is no store {path!r} in the state root; import into the root to create it"
            )
        return None
    location = locate(place)
    if isinstance(location, Partition):
        if location.root is None and location.has_engine and not location.has_changelog:
            return location
        raise InvalidArgumentError(
            f"{path!r} is one partition, and the rows of a file may belong to any; import into "
            "the state root"
        )
    if isinstance(location, Root):
        return location
    raise InvalidArgumentError(f"{path!r} is no store that rows could be put into")


@contextmanager
def _root_at(path: str, target: Root | None, rows: RowsFile) -> Iterator[Root]:
    """Give *target*, or a state root that is made for a file that says what its store is.

    Where the block raises, one that was made is gone again.

    Raises:
        InvalidArgumentError: There is none, and the file does not say it.
    """
    if target is not None:
        yield target
        return
    if rows.origin is None:
        raise InvalidArgumentError(
            f"there is no state root at {path!r}, and {str(rows.path)!r} does not say what its "
            f"store should be; {_CREATE}"
        )
    with importing_root(path) as root:
        yield Root(root, None)


def _store_for(
    target: Root, rows: RowsFile, name: str | None, partitions: int | None
) -> StoreEntry:
    """Return the store to import into, or what it is to be if it is not there.

    Raises:
        InvalidArgumentError: It is not there and the file does not say what it is, or it is
            there with another number of partitions.
    """
    described = None if rows.origin is None else rows.origin.specification
    wanted = name or target.store or (None if described is None else str(described["name"]))
    if wanted is None or wanted in target.root.stores:
        chosen = choose_store(target, wanted)
        entry = target.root.store(chosen)
        number = entry.partitions
        if partitions not in (None, number):
            raise InvalidArgumentError(
                f"the store {chosen!r} has {number} partitions, and --partitions {partitions}; "
                "`statestores reshard` gives a store another number"
            )
        return entry
    if described is None:
        raise InvalidArgumentError(
            f"there is no store {wanted!r} in {str(target.root.path)!r}, and the file does not "
            f"say what it should be; {_CREATE}"
        )
    specification = specification_from_description({**described, "name": wanted})
    return StoreEntry(specification=specification, partitions=partitions or 1)


def _into_root(
    root: StateRoot,
    entry: StoreEntry,
    rows: RowsFile,
    progress: ProgressCallback | None,
    *,
    replace: bool,
    typed: bool | None,
) -> _Imported:
    """Append the rows to the changelogs of the store, all or nothing."""
    specification, partitions = entry.specification, entry.partitions
    name = specification.name
    typed = rows.is_typed(specification, typed=typed)
    meter = Meter(progress, rows.rows)

    def changes() -> Iterator[pa.RecordBatch]:
        for batch in rows.batches():
            encoded = encode_rows(batch, specification, typed=typed)
            yield changes_from_encoded(encoded, specification)
            meter.add(batch.num_rows, batch.nbytes)

    if name in root.stores:
        published = write_at_once(root, name, changes(), "overwrite" if replace else "append")
    else:
        published = create_at_once(root, specification, partitions=partitions, changes=changes())
    return _Imported(name, published.rows, partitions)


def _into_engine(
    partition: Partition,
    file: Path,
    options: dict[str, object],
    progress: ProgressCallback | None,
    *,
    typed: bool | None,
) -> _Imported:
    """Put the rows into a store that has an engine only."""
    with open_existing(partition.path, options=options) as store:
        rows = import_file(store, file, typed=typed, progress=progress)
        return _Imported(store.name, rows, 1)
