"""Where a reshard into another state root goes, and what refuses that before anything is done."""

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from statestores.errors import InvalidArgumentError, StorageError
from statestores.files.local_path import local_path
from statestores.resharding.into_another import refuse_present
from statestores.state_root import StateRoot
from statestores.storage import ObjectStorage, is_storage_url, open_storage
from statestores.stores_in_objects import refuse_copied_store


def target_of(
    source: StateRoot,
    to: str | PathLike[str] | ObjectStorage | None,
    options: Mapping[str, object] | None,
) -> tuple[ObjectStorage | None, Path | None]:
    """Return the object store, or the directory, that *to* names; neither for in place.

    Raises:
        InvalidArgumentError: It is that of *source*, or in it; or *options* are for none.
        StateStoreError: It cannot be used.
    """
    if isinstance(to, ObjectStorage):
        target = to
    elif to is not None and is_storage_url(to):
        target = open_storage(to, options)
    elif options is None:
        directory = None if to is None else local_path(to, "to")
        if directory is not None and source.storage is None:
            _refuse_inside(source, directory)
        return None, directory
    else:
        raise InvalidArgumentError(
            "to_storage_options are for the URL of an object store, and to is none"
        )
    if source.storage is not None and f"{target.url}/".startswith(f"{source.storage.url}/"):
        raise InvalidArgumentError(
            f"{target.url!r} is the state root that the store is in, or is inside it; give to "
            "(--to) one beside it, or leave it out to reshard the store in place"
        )
    return target, None


def refuse_target(objects: ObjectStorage | None, directory: Path | None, store: str) -> None:
    """Accept a target that takes *store*, as far as one can tell without writing there.

    Raises:
        StoreMismatchError: It has a store of that name, or can be no state root.
        StorageError: It cannot be read, or not be written.
    """
    if objects is not None:
        refuse_copied_store(objects, store)
    elif directory is not None:
        refuse_present(directory, store)
        _refuse_unwritable(directory / store)


def _refuse_unwritable(home: Path) -> None:
    """Accept the directory *home*, if it is there, or can be made.

    Raises:
        StorageError: It is not, and cannot.
    """
    there = next(each for each in (home, *home.parents) if each.exists() or each == each.parent)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise StorageError(
            f"cannot write into {str(home)!r}: {str(there)!r} is no directory in which this user "
            "may write; check the path and the rights"
        )


def _refuse_inside(source: StateRoot, directory: Path) -> None:
    """Accept a *directory* outside the root that the store is in.

    What lies in the directory of a store is the store's: a root in there would hide from readers
    of old partitions that these were resharded, and go with what a reshard has left.

    Raises:
        InvalidArgumentError: It is that root, or is in it.
    """
    root, target = source.path.resolve(), directory.resolve()
    if target == root:
        raise InvalidArgumentError(
            f"{str(directory)!r} is the state root that the store is in; leave to (--to) out to "
            "reshard it in place"
        )
    if root in target.parents:
        raise InvalidArgumentError(
            f"{str(directory)!r} is inside the state root {str(source.path)!r}, where the stores "
            "have their files; give to (--to) a directory beside it"
        )
