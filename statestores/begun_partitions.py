"""Which partitions of a store have begun a changelog, so that one that is gone is missed (LAY-35).

Whoever finds nothing where a partition lies would take it for one that nobody has written yet. So
who begins or opens a changelog leaves a file beside the partitions, which is named for the number::

    ROOT/<store>/.begun/<partition>

Nobody needs it where a reshard has made the partitions: all of these are there from the beginning.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from statestores.changelog import FileChangelog
from statestores.errors import StoreMismatchError
from statestores.files.durable_directory import make_directory, make_durable
from statestores.files.failures import reporting
from statestores.files.presence import look_for
from statestores.generations import place_in_root, refuse_replaced
from statestores.state_root import PartitionDirectory


class GonePartitionError(StoreMismatchError):
    """A changelog was begun and is not there; it may come back, with the disk that has it."""


BEGUN_DIRECTORY: Final = ".begun"
"""Where the files are, in the directory of the partitions. No store or partition has such a name;
a release that does not know it passes over it."""


def note_begun(home: Path, numbers: Iterable[int]) -> None:
    """Note that the partitions with *numbers*, of those in the directory *home*, have a changelog.

    Requires: they are there, on disk.

    Raises:
        StorageError: It cannot be noted.
    """
    directory = home / BEGUN_DIRECTORY
    if place_in_root(home)[2]:
        return
    new = [each for each in numbers if look_for(directory / str(each)) is None]
    if not new:
        return
    with reporting("write into", directory):
        make_directory(directory)
        for each in new:
            (directory / str(each)).touch()
        make_durable(directory)


def noted(log: FileChangelog, partition: PartitionDirectory) -> FileChangelog:
    """Return *log*, that of *partition*, once it is noted that it is there.

    Raises:
        StorageError: It cannot be noted; *log* is closed.
    """
    try:
        note_begun(partition.path.parent, [int(partition.path.name)])
    except BaseException:
        log.close()
        raise
    return log


def refuse_gone(partition: PartitionDirectory, next_offset: int = 0) -> None:
    """Accept that there was no changelog in *partition* of a state root: none had been begun.

    One that has been begun since the caller looked for it is no error. Whoever has copied changes
    of it says which offset comes next: a store's directory may be gone with all notes in it.

    Raises:
        StoreReshardedError: The store has other partitions since.
        GonePartitionError: There was one, and it is gone.
        StoreCorruptedError, StorageError: It cannot be told.
    """
    home = partition.path.parent
    refuse_replaced(home)
    file = home / BEGUN_DIRECTORY / partition.path.name
    if place_in_root(home)[2]:
        witness = f"the reshard that made {str(home)!r} gave it one"
        give_up = ""
    elif look_for(file) is not None:
        witness = f"{str(file)!r} says that there was one"
        give_up = ", or remove that file if the partition is to begin anew, empty"
    elif next_offset > 0:
        witness = f"a copy has its changes up to offset {next_offset - 1}"
        give_up = ", or remove the copy as well if the partition is to begin anew, empty"
    else:
        return
    if FileChangelog.exists(partition.changelog):
        return
    raise GonePartitionError(
        f"the changelog in {str(partition.path)!r} is gone: {witness}; put the partition back "
        f"from a copy{give_up}"
    )
