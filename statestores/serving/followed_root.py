"""A state root read from outside: a copy of every partition, which follows its changelog.

No lock of a writer is taken, and in an object store nobody is fenced: so an application may have
the root open, or open it later. A read that is not stale is answered by a copy that has every
change which the changelog had when the read began; a copy that lacks some is brought up to it
first.
"""

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from os import PathLike
from pathlib import Path
from threading import Lock

from statestores.begun_partitions import refuse_gone
from statestores.errors import StateStoreError, StoreNotFoundError
from statestores.files.scratch_directory import scratch_directory
from statestores.reading.locations import Partition
from statestores.reading.unfinished_imports import refuse_unimported
from statestores.root_document import TASKS_DIRECTORY
from statestores.serving.served import ServedTasks
from statestores.spi.closing import Closing
from statestores.state_root import StateRoot
from statestores.tasks import Standby, TaskId, TaskManager
from statestores.tasks.task import PICTURE_FILE

_MAX_PICTURE_BYTES = 1024 * 1024

FOLLOW_INTERVAL_S = 0.25
"""How often copies look for changes by themselves."""


class FollowedRoot(ServedTasks, Closing):
    """The stores of a state root, for whoever does not write them."""

    def __init__(
        self,
        root: StateRoot | str | PathLike[str],
        *,
        stores: Iterable[str] | None = None,
        local_directory: str | PathLike[str] | None = None,
        backend: str | None = None,
        follow_interval_s: float = FOLLOW_INTERVAL_S,
        topology: str | None = None,
    ) -> None:
        """Begin to copy what is in *root*; see `waiting` for what is not there yet.

        Args:
            root: The state root, which may be in an object store; or its path or URL.
            stores: The stores to copy; all of them by default.
            local_directory: Where the copies lie, to go on from another time; by default in a
                temporary directory, which is removed in the end.
            backend: The backend of the copies.
            follow_interval_s: How often copies look for changes by themselves.
            topology: A picture of what writes the root, as Mermaid text; by default what the
                local runner has left there.

        Raises:
            StoreNotFoundError: There is no state root; or not such a store; or it has partitions
                that are in an engine alone, which nobody but their owner can read.
            StateStoreError: A copy cannot be opened.
        """
        state = root if isinstance(root, StateRoot) else StateRoot.open(root)
        names = sorted(state.stores if stores is None else stores)
        if not names:
            shown = str(state.path) if state.storage is None else state.storage.url
            raise StoreNotFoundError(f"{shown!r} has no stores to serve")
        for name in names if state.storage is None else ():
            _check_readable(state, name)
        self._stack = ExitStack()
        with ExitStack() as opening:
            if local_directory is None:
                local_directory = opening.enter_context(scratch_directory())
            manager = opening.enter_context(
                TaskManager(
                    state,
                    {group: [name] for group, name in enumerate(names)},
                    local_directory=Path(local_directory),
                    backend=backend,
                    follow_interval_s=follow_interval_s,
                )
            )
            manager.assign(
                [],
                [
                    TaskId(group, number)
                    for group, name in enumerate(names)
                    for number in range(state.store(name).partitions)
                ],
            )
            self._stack = opening.pop_all()
        super().__init__(manager, topology=topology)
        self._behind = {standby for copies in manager.standbys.values() for standby in copies}
        self._lock = Lock()

    @property
    def answers_from_copies(self) -> bool:
        """There is nothing else here."""
        return True

    def waiting(self) -> tuple[str, ...]:
        """Return the copies that have never had everything, and those that cannot go on."""
        with self._lock:
            for standby in list(self._behind):
                with suppress(StateStoreError):
                    if standby.lag.offset_lag == 0 and self._is_readable(standby):
                        self._behind.discard(standby)
            behind = sorted(self._behind, key=lambda each: (each.name, each.partition))
        words = [f"partition {each.partition} of {each.name!r} is being copied" for each in behind]
        for copies in self._manager.standbys.values():
            words += [
                f"partition {each.partition} of {each.name!r} cannot be followed: {each.failure}"
                for each in copies
                if each.failure is not None
            ]
        return tuple(words)

    @staticmethod
    def _is_readable(standby: Standby) -> bool:
        standby.read_only(include_stale=True)
        return True

    def catch_up(self, name: str) -> None:
        """Take what the changelogs of the store *name* have now, each as far as it can be read.

        Raises:
            StateStoreError: One cannot be read; the copies of the others have what theirs have.
        """
        failures: list[StateStoreError] = []
        for copies in self._manager.standbys.values():
            for standby in copies:
                if standby.name == name:
                    try:
                        if standby.lag.offset_lag:
                            standby.poll()
                    except StateStoreError as error:
                        failures.append(error)
        if failures:
            raise failures[0]

    def topology(self) -> str | None:
        """Return the picture that was given, or that the last run of a topology has left."""
        given = super().topology()
        if given is not None:
            return given
        if self._manager.root.storage is not None:
            return None
        file = self._manager.root.path / TASKS_DIRECTORY / PICTURE_FILE
        try:
            with file.open("rb") as opened:
                return opened.read(_MAX_PICTURE_BYTES).decode("utf-8", "replace")
        except OSError:
            return None

    def close(self) -> None:
        """Close the copies, and remove them unless their directory was given. Idempotent."""
        self._stack.close()


def _check_readable(state: StateRoot, name: str) -> None:
    """Accept a store whose partitions can be read without their engines.

    Raises:
        StoreNotFoundError: One has a live engine, and neither a changelog nor a snapshot.
        StoreMismatchError: An import has begun to bring one, and has not (MIG-21), or one has had a
            changelog, which is gone (LAY-35).
    """
    entry = state.store(name)
    refuse_unimported(state.home(name), *range(entry.partitions))
    for number in range(entry.partitions):
        place = Partition(state.partition(name, number), state, entry.specification, number)
        if place.has_engine and not place.has_changelog:
            refuse_gone(place.directory)
            raise StoreNotFoundError(
                f"partition {number} of {name!r} in {str(state.path)!r} has an engine and no "
                "changelog, so nobody but its owner can read it; open it as a logged store"
            )
