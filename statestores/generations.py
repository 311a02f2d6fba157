"""The generations of a store's partitions: where those lie that count, and that others are gone.

A reshard (RSH-1) writes all partitions of a store anew, beside those that are there, and then
notes in ``statestores.json`` that these are the store: the next *generation*. The first lies in
the directory of the store, and each later one in a directory of its own below it::

    ROOT/<store>/<partition>/                   generation 0
    ROOT/<store>/generation-1/<partition>/      generation 1

Paths are never used again, so whoever has opened the root before a reshard does not read, nor
write, some partitions from before it and some from after it: those from before are there, all of
them as they were, or gone, and then `refuse_replaced` says so.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from statestores.errors import StoreReshardedError
from statestores.files.durable_json import ROOT_FILE, read_fields
from statestores.files.strict_json import Fields
from statestores.text.advice import OPEN_ROOT_AGAIN

GENERATION: Final = "generation"
"""The field of a store's entry in ``statestores.json``; it is left out for the first."""

SCRATCH_DIRECTORY: Final = ".reshard"
"""Where a reshard keeps what nobody needs when it has ended, in the directory of the store. While
it is there, a reshard is at work or has died, and what lies beside it need not be the store's."""

_DIRECTORY = re.compile(r"generation-([1-9][0-9]*)")


def home_of(root: Path, store: str, generation: int) -> Path:
    """Return the directory that the partitions of a *generation* of *store* lie in."""
    home = root / store
    return home / f"generation-{generation}" if generation else home


def generation_from_name(name: str) -> int | None:
    """Return which generation the directory *name* is of; ``None`` for other names.

    >>> generation_from_name("generation-2"), generation_from_name("0")
    (2, None)
    """
    found = _DIRECTORY.fullmatch(name)
    return None if found is None else int(found[1])


def place_in_root(home: Path) -> tuple[Path, str, int]:
    """Return the root, the store and the generation whose partitions the directory *home* holds.

    A store may have the name of a generation; but then the root is the directory that it is in.
    """
    generation = generation_from_name(home.name)
    if generation is not None and (home.parent / ROOT_FILE).is_file():
        generation = None
    store = home if generation is None else home.parent
    return store.parent, store.name, generation or 0


def current_home(root: Path, store: str, partitions: int | None = None) -> Path:
    """Return the directory that the partitions of *store* lie in now, or will lie in.

    Who goes by a number of *partitions* that the store had earlier gives it, and hears when it is
    another by now: it would look for keys in the wrong ones.

    Raises:
        StoreReshardedError: It is.
        StoreCorruptedError, StorageError: ``statestores.json`` cannot be read.
    """
    entry = _entry(root, store)
    if entry is None:
        return home_of(root, store, 0)
    if partitions is not None and entry.integer("partitions") != partitions:
        raise resharded(store, root)
    return home_of(root, store, _generation(entry))


def refuse_replaced(home: Path) -> None:
    """Accept the directory of a generation that counts, or that no state root knows.

    Raises:
        StoreReshardedError: The store has been resharded since.
        StoreCorruptedError, StorageError: ``statestores.json`` cannot be read.
    """
    root, store, generation = place_in_root(home)
    entry = _entry(root, store)
    if entry is not None and _generation(entry) != generation:
        raise resharded(store, root)


def refuse_staged_before(home: Path, staged: Iterable[int | None]) -> None:
    """Accept rows that were *staged* beside these generations, if their files are in *home*.

    ``None`` is beside that of *home*.

    Raises:
        StoreReshardedError: Some were staged beside partitions that are no longer the store's, with
            which the files have gone.
    """
    _, store, generation = place_in_root(home)
    if {generation, None}.issuperset(staged):
        return
    raise StoreReshardedError(
        f"the partitions of the store {store!r} were replaced since rows of this write were staged,"
        " by a reshard or by an overwrite with snapshots. Nothing of this write is there: repeat "
        "it, or start the query again"
    )


def resharded(store: str, root: Path | str) -> StoreReshardedError:
    """Return the error for partitions of *store* that are no longer those of the store."""
    return StoreReshardedError(
        f"the store {store!r} of {str(root)!r} has been resharded since this was opened: its "
        f"partitions are others, with changelogs that begin at a snapshot; {OPEN_ROOT_AGAIN}"
    )


def _entry(root: Path, store: str) -> Fields | None:
    """Return what *root* notes of *store*; ``None`` where it notes no such store."""
    fields = read_fields(root / ROOT_FILE)
    if fields is None:
        return None
    stores = fields.inside("stores")
    return stores.inside(store) if store in stores else None


def _generation(entry: Fields) -> int:
    """Return which generation *entry*, that of a store, says."""
    return entry.integer(GENERATION) if GENERATION in entry else 0
