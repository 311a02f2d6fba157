"""The command `du`: where the bytes of a state root are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from statestores.cli.arguments import CsvOption, JsonOption, LocalOption, StoreOption
from statestores.cli.columns import Column
from statestores.cli.facts import size_of
from statestores.cli.locations import choose_stores
from statestores.cli.object_roots import sizes_of_objects
from statestores.cli.operating.root_partitions import locate_root
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError
from statestores.reading.locations import Partition, Root
from statestores.staging.write_intent import staging_directory
from statestores.storage import is_storage_url
from statestores.tasks.rebuilding import DAMAGED_PREFIX
from statestores.text.sizes import format_bytes

_Row: TypeAlias = tuple[Any, ...]

_SIZES = ("engine", "changelog", "snapshots", "set_aside", "staged", "other")

COLUMNS = (
    Column("store", "store"),
    Column("partition", "partition"),
    *(Column(f"{name}_bytes", name.replace("_", " "), format_bytes) for name in _SIZES),
    Column("bytes", "sum", format_bytes),
)
"""What of each partition, of a store outside of its partitions, and of the rest of a root."""


def du(
    root: Annotated[
        str, typer.Argument(metavar="ROOT", help="A state root, or one of its stores.")
    ],
    *,
    store: StoreOption = None,
    local: LocalOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Say how many bytes the engines, changelogs and snapshots of each partition take.

    A row without a partition is what a store has besides: staged writes, and files of nobody. The
    one without a store is what the root has besides.

    ROOT may be the URL of a state root in an object store, which has no engines. What Spark's tasks
    have put there and nobody has folded yet is staged, whether or not it counts.

    Example: statestores du state/
    """
    output = Output(json=json, csv=csv)
    if is_storage_url(root):
        if local is not None:
            raise InvalidArgumentError(
                "the engines of an object store are not looked at; leave --local out for a URL"
            )
        found = sizes_of_objects(root, store)
        _show(output, [_row(name, number, **sizes) for name, number, sizes in found])
        return
    location = locate_root(root, store, local)
    _show(output, list(_rows(location, store)))


def _show(output: Output, rows: list[_Row]) -> None:
    output.rows(COLUMNS, rows)
    total = sum(row[-1] for row in rows)
    output.remark(f"{format_bytes(total)} in all")


def _rows(location: Root, store: str | None) -> Iterator[_Row]:
    names = choose_stores(location, store)
    known = 0
    for name in names:
        directories = [location.root.path / name]
        if location.local is not None:
            directories.append(location.local / name)
        rows = [_partition_row(name, each) for each in location.partitions(name)]
        staged = size_of(staging_directory(location.root.home(name)))
        whole = sum(map(size_of, directories))
        rest = whole - staged - sum(row[-1] for row in rows)
        yield from rows
        if staged or rest > 0:
            yield _row(name, None, staged=staged, other=max(0, rest))
        known += size_of(directories[0])
    if location.store is None and store is None:
        rest = size_of(location.root.path) - known
        if rest > 0:
            yield _row(None, None, other=rest)


def _partition_row(name: str, partition: Partition) -> _Row:
    """Return the cells of *partition*, its engine perhaps elsewhere."""
    sizes = {
        "engine": size_of(partition.engine),
        "changelog": size_of(partition.directory.changelog),
        "snapshots": size_of(partition.directory.snapshots),
        "set_aside": sum(map(size_of, _set_aside(partition.home))),
    }
    places = {partition.path, partition.home}
    other = sum(map(size_of, places)) - sum(sizes.values())
    return _row(name, partition.number, **sizes, other=max(0, other))


def _row(store: str | None, partition: int | None, **sizes: int) -> _Row:
    each = [sizes.get(name, 0) for name in _SIZES]
    return (store, partition, *each, sum(each))


def _set_aside(home: Path) -> list[Path]:
    """Return the damaged engines that were kept in *home*."""
    return list(home.glob(f"{DAMAGED_PREFIX}*"))
