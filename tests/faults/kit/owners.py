"""Owners of stores, alike whatever they own: an engine alone, a logged store, or a task of two.

Each operation on a store has a number, as in `statestores_conformance.faults.crash_workload`. The
position of the input is the number of the last operation that is committed, so a reader knows from
it what the content has to be.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import statestores as ss
from statestores.changelog import ChangelogOptions
from statestores.logged_store import LoggedStore, open_logged_store
from statestores.registry import load_backend
from statestores.spi import Durability
from statestores.tasks import Task, open_task
from statestores_conformance.faults.crash_workload import CHANGELOG, INPUT, WORKLOADS, Workload
from statestores_memory import MemoryEngine

_SEED = 892


class Owner(ABC):
    """The owner of the stores in one directory."""

    def __init__(self, directory: Path, backend: str, kind: str) -> None:
        """Own what is in *directory*; nothing is opened, and nothing there yet."""
        self.directory = directory
        self.backend = backend
        self.kind = kind

    def workload(self, part: int) -> Workload:
        """Return a new workload for store number *part*, whose model is empty."""
        kinds = (self.kind, "key-value")
        return WORKLOADS[kinds[part]](_SEED + part)

    @abstractmethod
    def open(self) -> None:
        """Open everything."""

    @abstractmethod
    def close(self) -> None:
        """Close everything; what is not open is no error."""

    @property
    @abstractmethod
    def stores(self) -> list[Any]:
        """The open stores; none when they are not open."""

    @abstractmethod
    def commit(self, last: int) -> None:
        """Commit what is pending with the position *last*."""

    @abstractmethod
    def rollback(self) -> None:
        """Forget what is pending."""

    def write(self, batch: range) -> None:
        """Take the operations *batch* on each store; nothing is committed."""
        for part, store in enumerate(self.stores):
            workload = self.workload(part)
            for number in batch:
                workload.write(store, number)

    def committed(self) -> list[tuple[int, int | None]]:
        """Return for each store the number and the offset of its last commit, as others see it."""
        found = []
        for store in self.stores:
            content = store.committed_content()
            content.changes.close()
            (offset,) = content.offsets.values() or (None,)
            found.append((content.position.get(INPUT, -1), offset))
        return found

    def differences(self, numbers: list[int]) -> Iterator[str]:
        """Yield how what others see differs from what the operations up to *numbers* give.

        There is a number for each store.
        """
        for part, (store, number) in enumerate(zip(self.stores, numbers, strict=True)):
            workload = self.workload(part)
            workload.model_up_to(number)
            yield from workload.differences(store.read_only())

    def lose_engine(self) -> bool:
        """Remove what can be restored from something else; return whether there was anything.

        Requires: nothing is open.
        """
        found = list(self.directory.glob("root/*/*/engine.json"))
        for noted in found:
            noted.unlink()
            shutil.rmtree(noted.with_name("engine"))
        return bool(found)


class PlainOwner(Owner):
    """The owner of a store in an engine of its own, without a changelog."""

    _store: Any = None

    def open(self) -> None:
        engine = load_backend(self.backend).open(self.directory / "engine")
        try:
            self._store = self.workload(0).open(engine, Durability.POWER_LOSS)
        except BaseException:
            engine.close()
            raise

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    @property
    def stores(self) -> list[Any]:
        return [self._store] if self._store is not None and self._store.is_open else []

    def commit(self, last: int) -> None:
        self._store.advance_position({INPUT: last})
        self._store.commit({CHANGELOG: last})

    def rollback(self) -> None:
        self._store.rollback()


class OpenedOwner(PlainOwner):
    """The owner of a store that was opened by its path, and says itself what it is."""

    def open(self) -> None:
        self._store = ss.open_store(
            self.directory / "store",
            specification_of(self.workload(0), "crash"),
            backend=self.backend,
        )


class LoggedOwner(Owner):
    """The owner of a logged store."""

    segment_bytes = 1 << 20
    logged: LoggedStore[Any] | None = None

    def open(self) -> None:
        root = ss.StateRoot.create(self.directory / "root")
        root.add_store(specification_of(self.workload(0), "crash"), partitions=1)
        self.logged = open_logged_store(
            root,
            "crash",
            0,
            backend=self.backend,
            changelog_options=ChangelogOptions(segment_bytes=self.segment_bytes),
        )

    def close(self) -> None:
        if self.logged is not None:
            self.logged.close()

    @property
    def stores(self) -> list[Any]:
        return [self.logged.store] if self.logged is not None and self.logged.is_open else []

    def commit(self, last: int) -> None:
        assert self.logged is not None
        self.logged.commit({INPUT: last})

    def rollback(self) -> None:
        (store,) = self.stores
        store.rollback()


class RollingOwner(LoggedOwner):
    """The owner of a logged store of which each commit begins a new segment."""

    segment_bytes = 1


class TaskOwner(Owner):
    """The owner of a task of two stores, the second of them a key-value store."""

    _task: Task | None = None
    _names = ("crash", "other")

    def open(self) -> None:
        root = ss.StateRoot.create(self.directory / "root")
        for part, name in enumerate(self._names):
            root.add_store(specification_of(self.workload(part), name), partitions=1)
        self._task = open_task(root, "0_0", self._names, backend=self.backend)

    def close(self) -> None:
        if self._task is not None:
            self._task.close()

    @property
    def stores(self) -> list[Any]:
        task = self._task
        if task is None or not task.is_open:
            return []
        return [task.stores[name].store for name in self._names]

    def commit(self, last: int) -> None:
        assert self._task is not None
        self._task.commit({INPUT: last})

    def rollback(self) -> None:
        assert self._task is not None
        self._task.rollback()


OWNERS: dict[str, type[Owner]] = {
    "plain": PlainOwner,
    "opened": OpenedOwner,
    "logged": LoggedOwner,
    "rolling": RollingOwner,
    "task": TaskOwner,
}
"""The owners by name."""


def specification_of(workload: Workload, name: str) -> Any:
    """Return what the store of *workload* is, under *name*."""
    with workload.open(MemoryEngine.open(""), Durability.PROCESS_CRASH) as store:
        return replace(store.specification, name=name)
