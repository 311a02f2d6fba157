"""Partitions that an import has begun to bring: until they come, nobody takes them for empty.

An import notes what it is going to bring before it writes anything, and forgets that when all of it
has come (MIG-21). So one that died has left the note, and whoever looks into a partition that it
names is told, and not that there are no rows.
"""

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from statestores.errors import StorageError, StoreMismatchError
from statestores.files.durable_directory import make_durable
from statestores.files.durable_json import check_format, read_fields, write_json
from statestores.generations import place_in_root
from statestores.root_document import IMPORT_DIRECTORY

Places = Mapping[str, AbstractSet[int]]
"""Partitions by store."""

ASIDE: Final = "state"
"""The name of the state root with the partition that is being written, in `IMPORT_DIRECTORY`."""

_COME: Final = "imported.json"
"""What says which partitions imports have brought, of which stores."""

_BEGUN: Final = "begun.json"
"""What says which partitions imports have begun to bring; there is none when all have come."""

_FORMAT: Final = 1


def imported(root: Path) -> dict[str, set[int]]:
    """Return the partitions that imports have brought into *root*, by store.

    One is noted just before it gets its place: until then it is still aside, and does not count.

    Raises:
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be told.
    """
    aside = root / IMPORT_DIRECTORY / ASIDE
    return {
        store: {number for number in numbers if not (aside / store / str(number)).exists()}
        for store, numbers in _read(root, _COME).items()
    }


def note_imported(root: Path, store: str, partition: int) -> None:
    """Note that an import brings *partition* of *store*, which a reshard makes impossible to see.

    Requires: the lock of imports is held.
    """
    noted = imported(root)
    _write(root, _COME, {**noted, store: {*noted.get(store, ()), partition}})


def forget_aside(root: Path) -> None:
    """Forget that what lies aside has come, as its import had noted when it died.

    Requires: the lock of imports is held; what lies aside is removed next.
    """
    noted = imported(root)
    if noted != _read(root, _COME):
        _write(root, _COME, noted)


def unfinished(root: Path) -> dict[str, set[int]]:
    """Return the partitions that imports have begun to bring into *root*, and have not.

    Raises:
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be told.
    """
    begun = _read(root, _BEGUN)
    if not begun:  # as nearly always
        return {}
    come = imported(root)
    left = {store: numbers - come.get(store, set()) for store, numbers in begun.items()}
    return {store: numbers for store, numbers in left.items() if numbers}


@contextmanager
def bringing(root: Path, places: Collection[tuple[str, int]]) -> Iterator[None]:
    """Have it noted that *places*, stores and partitions, are to come, until all have.

    Where the block raises and none of them has come, what was noted before is noted again.

    Requires: the lock of imports is held.

    Raises:
        StorageError: It cannot be noted.
    """
    before = unfinished(root)
    begun = {store: set(numbers) for store, numbers in before.items()}
    for store, number in places:
        begun.setdefault(store, set()).add(number)
    _note_begun(root, begun)
    try:
        yield
    except BaseException:
        come = imported(root)
        if not any(number in come.get(store, ()) for store, number in places):
            _note_begun(root, before)
        raise
    _note_begun(root, unfinished(root))


def unimported(home: Path) -> set[int]:
    """Return the partitions of the store in the directory *home* that are still to be imported.

    Raises:
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be told.
    """
    root, store, generation = place_in_root(home)
    # Partitions of a later generation have other numbers, and no import brings them.
    return set() if generation else unfinished(root).get(store, set())


def refuse_unimported(home: Path, *partitions: int) -> None:
    """Accept *partitions* in *home*, a store's directory, unless one is still to be imported.

    Raises:
        StoreMismatchError: An import has begun to bring it, and has not.
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be told.
    """
    missing = unimported(home)
    if not missing.isdisjoint(partitions):
        root, store, _ = place_in_root(home)
        raise StoreMismatchError(_words(root, store, missing))


def _words(root: Path, store: str, missing: AbstractSet[int]) -> str:
    """Return the sentence about the partitions of *store* that are *missing*."""
    which = ", ".join(map(str, sorted(missing)))
    return (
        f"the import of the store {store!r} into {str(root)!r} has not ended: what belongs to "
        f"partition {which} is still missing; let the import end, or repeat it and skip what is "
        "there already (skip_existing=True, --skip-existing); to go on without what is missing, "
        f"remove {str(root / IMPORT_DIRECTORY / _BEGUN)!r}"
    )


def _read(root: Path, name: str) -> dict[str, set[int]]:
    """Return the partitions by store that the file *name* says."""
    file = root / IMPORT_DIRECTORY / name
    fields = read_fields(file)
    if fields is None:
        return {}
    check_format(fields, file, _FORMAT)
    stores = fields.inside("stores")
    return {store: {number for number, _ in stores.inside(store).numbered()} for store in stores}


def _note_begun(root: Path, places: Places) -> None:
    """Have *places* be those that imports have begun to bring."""
    if places:
        _write(root, _BEGUN, places)
        return
    file = root / IMPORT_DIRECTORY / _BEGUN
    try:
        with suppress(FileNotFoundError):
            file.unlink()
            make_durable(file.parent)
    except OSError as error:
        raise StorageError(f"cannot remove {str(file)!r}: {error.strerror or error}") from error


def _write(root: Path, name: str, places: Places) -> None:
    stores: dict[str, dict[str, dict[str, str]]] = {
        store: {str(each): {} for each in sorted(numbers)} for store, numbers in places.items()
    }
    write_json(root / IMPORT_DIRECTORY / name, {"format": _FORMAT, "stores": stores})
