"""The next generation of a store's partitions: made beside those that count, and then it is them.

The commit point is one small file: ``statestores.json`` says which generation of partitions is the
store (`statestores.generations`). Whatever dies before leaves files that nobody reads.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from statestores.arrow.file_access import reporting
from statestores.errors import StateStoreError
from statestores.failpoints import reach
from statestores.files.durable_directory import make_directory
from statestores.generations import SCRATCH_DIRECTORY, home_of
from statestores.resharding.left_over import remove_all_but
from statestores.staging.write_intent import WriteIntent, staging_directory, store_intent
from statestores.state_root import StateRoot


@contextmanager
def next_generation(root: StateRoot, store: str, partitions: int) -> Iterator[tuple[Path, Path]]:
    """Give a directory for the new *partitions* of *store*, and one for scratch beside it.

    At the end they count, unless the block has raised; then they go. The scratch goes before they
    count: what keeps others from the store is of the generation before, and whoever reshards the
    next one has the same directory for its scratch.

    Requires: nobody else writes to the store, and all that the block has written is on disk.

    Raises:
        StateStoreError: They cannot be made to count; the store is as it was.
    """
    generation = root.store(store).generation
    remove_all_but(root.path, store, generation)
    home = home_of(root.path, store, generation + 1)
    scratch = root.path / store / SCRATCH_DIRECTORY
    try:
        with reporting("write into", home):
            make_directory(home)
            make_directory(scratch)
        yield home, scratch
        reach("reshard.built")
        shutil.rmtree(scratch, ignore_errors=True)  # what stays is removed with what is left over
        root.note_resharded(store, partitions)
    except BaseException:
        if _is_of(root.path, store, generation):
            shutil.rmtree(home, ignore_errors=True)
            shutil.rmtree(scratch, ignore_errors=True)
        raise


def note_batches(home: Path, batches: Mapping[str, int], write_id: str) -> None:
    """Note that the new partitions in *home* have *batches*, as by the staged write *write_id*.

    So one that comes again is known.

    Raises:
        StorageError: It cannot be written.
    """
    if not batches:
        return
    with reporting("write into", home):
        make_directory(staging_directory(home))
    store_intent(
        home,
        WriteIntent(
            write_id=write_id, overwrite=False, finished=True, partitions={}, batches=batches
        ),
    )


def _is_of(root: Path, store: str, generation: int) -> bool:
    """Return whether the root names *generation* still; not where that cannot be read."""
    try:
        return StateRoot.open(root).store(store).generation == generation
    except StateStoreError:
        return False
