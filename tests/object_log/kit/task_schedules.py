"""Schedules of processes that open one task, commit, die and sleep, on a store that does its worst.

What runs is the library itself, from `open_task` down: each process is a thread, and each request
to the object store a step of the schedule, so that one thread runs at a time and a seed decides
all. A request fails as in `played_actors`; a process that has died gets no answer to anything, and
its disk is gone.
"""

import collections
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scheduled_store import Memory
from scope import WHOLE, Scope

import statestores as ss
from statestores.errors import (
    CommitConflictError,
    CommitInDoubtError,
    FencedError,
    StateStoreError,
    StorageError,
)
from statestores.object_log.requests import Create, Delete, ListNames, Read, Replace, Request
from statestores.storage import Found, Listed, ObjectStorage, Outcome, Unchanged
from statestores.tasks import Task, open_standby, open_task

STORES = ("counts", "rates", "names")
INPUT = ss.TopicPartition("words", 0)
STEPS = 6_000


class Died(BaseException):
    """The process is dead: whatever it still does reaches nobody."""


class StorageOf(ObjectStorage):
    """The object store as one process sees it."""

    def __init__(self, ask: Callable[[Request], Any]) -> None:
        self._ask = ask

    @property
    def url(self) -> str:
        """Return what messages show."""
        return "memory://explorer"

    def create(self, name: str, data: bytes) -> Outcome:
        """Ask for it."""
        outcome: Outcome = self._ask(Create(name, data))
        return outcome

    def replace(self, name: str, data: bytes, tag: str) -> Outcome:
        """Ask for it."""
        outcome: Outcome = self._ask(Replace(name, data, tag))
        return outcome

    def read(self, name: str, known_tag: str | None = None) -> Found | Unchanged | None:
        """Ask for it."""
        found: Found | Unchanged | None = self._ask(Read(name, known_tag))
        return found

    def read_range(self, name: str, start: int, length: int) -> bytes | None:
        """Ask for all of it."""
        found: Found | None = self._ask(Read(name))
        return None if found is None else found.data[start : start + length]

    def read_many(self, names: Sequence[str]) -> list[Found | None]:
        """Ask for one after the other: anything may come between them."""
        return [self._ask(Read(name)) for name in names]

    def list(self, prefix: str) -> Iterator[Listed]:
        """Ask for it; nothing has a size or an age."""
        return iter([Listed(name, 0, 0) for name in self._ask(ListNames(prefix))])

    def delete(self, name: str) -> None:
        """Ask for it."""
        self._ask(Delete(name))


class Process:
    """A thread that runs only while the schedule waits for it."""

    def __init__(self, name: str, life: Callable[["Process"], None]) -> None:
        self.name = name
        self.request: Request | None = None
        self.answer: Any = None
        self.is_dead = False
        self.failure: BaseException | None = None
        self._life = life
        self._goes = threading.Semaphore(0)
        self._stops = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()
        self._stops.acquire()

    @property
    def is_over(self) -> bool:
        """Whether it asks for nothing any more."""
        return self.request is None

    def _live(self) -> None:
        try:
            self._life(self)
        except Died:
            pass
        except BaseException as failure:  # noqa: BLE001  # for the thread that checks
            self.failure = failure
        self.request = None
        self._stops.release()

    def ask(self, request: Request) -> Any:
        """Have *request* carried out when the schedule comes to it."""
        if self.is_dead:
            raise Died
        self.request = request
        self._stops.release()
        self._goes.acquire()
        if self.is_dead:
            raise Died
        if isinstance(self.answer, StorageError):
            raise self.answer
        return self.answer

    def go_on(self, answer: Any) -> None:
        """Give it the *answer*, and wait until it asks again, or is over."""
        self.answer = answer
        self._goes.release()
        self._stops.acquire()

    def die(self) -> None:
        """Let it end without another answer."""
        self.is_dead = True
        while not self.is_over:
            self.go_on(None)


class TaskSchedule:
    """One run of processes, in an order and with failures that its seed decides."""

    def __init__(self, seed: int, scratch: Path, scope: Scope = WHOLE) -> None:
        self.scope = scope
        self.random = random.Random(seed)
        self.scratch = scratch
        self.memory = Memory()
        self.counts: collections.Counter[str] = collections.Counter()
        self.faults = self.random.choice((0.0, 0.01, 0.03, 0.08))
        self.attempted: dict[str, frozenset[str]] = {}
        self.numbers: dict[str, int] = {}
        self.acknowledged: set[str] = set()
        self.denied: set[str] = set()
        self.seen: set[str] = set()
        root = ss.StateRoot.create("memory://explorer")  # only for what the stores are
        for name in STORES:
            root.add_store(ss.KeyValue(name), partitions=1)
        self.stores = root.stores
        for name in STORES:
            self.root(self.memory.execute).object_log(name).create()

    def root(self, ask: Callable[[Request], Any]) -> ss.StateRoot:
        """Return the state root, for a process."""
        return ss.StateRoot(StorageOf(ask), self.stores)

    def worker(self, process: Process) -> None:
        """Open the task, commit, and close or lose it, again and again."""
        root = self.root(process.ask)
        for life in range(self.scope.tasks):
            before = self.acknowledged | self.seen
            try:
                task = self.opened(root, f"{process.name}.{life}")
            except StateStoreError as error:
                self.note_refusal(error)
                continue
            self.look(task, before)
            for number in range(self.random.randint(1, self.scope.commits)):
                if not self.commit(task, f"{process.name}.{life}.{number}"):
                    break
            if self.random.random() < 0.6:
                task.close()

    def opened(self, root: ss.StateRoot, name: str) -> Task:
        """Open the task with engines of its own, or over standbys that have followed."""
        local = self.scratch / name
        copies = []
        if self.random.random() < 0.3:
            for store in STORES:
                copy = open_standby(root, store, 0, local / store / "0", backend="memory")
                copy.poll()
                copies.append(copy)
            self.counts["standbys"] += 1
        return open_task(
            root, "0_0", STORES, local_directory=local, backend="memory", standbys=copies
        )

    def note_refusal(self, error: StateStoreError) -> None:
        """Accept an opening that has failed as it may: fenced, or without an answer."""
        if not isinstance(error, FencedError | CommitInDoubtError | StorageError):
            raise error
        if type(error) not in (FencedError, CommitInDoubtError, StorageError):
            raise error  # damage, or a contradiction
        self.counts[f"opening: {type(error).__name__}"] += 1

    def commit(self, task: Task, unique: str) -> bool:
        """Commit a row to some stores; return whether to go on."""
        touched = self.random.sample(STORES, self.random.choice((1, 2, 2, 3)))
        number = task.next_offset(INPUT)
        self.attempted[unique] = frozenset(touched)
        self.numbers[unique] = number
        for store in touched:
            task.logged_store(store).store.put(unique.encode(), b"%d" % number)
        try:
            task.commit({INPUT: number})
        except FencedError:
            self.denied.add(unique)
            self.counts["fenced"] += 1
        except (CommitConflictError, CommitInDoubtError, StorageError) as error:
            self.counts[f"commit: {type(error).__name__}"] += 1
        else:
            self.acknowledged.add(unique)
            return True
        return False

    def stranger(self, process: Process) -> None:
        """Open one store of the task by itself, write nothing, and close it."""
        root = self.root(process.ask)
        for turn in range(2):
            name = self.random.choice(STORES)
            directory = self.scratch / f"{process.name}.{turn}"
            try:
                ss.open_logged_store(root, name, 0, directory=directory, backend="memory").close()
            except StateStoreError as error:
                self.note_refusal(error)

    def keeper(self, process: Process) -> None:
        """Fold, compact and vacuum."""
        root = self.root(process.ask)
        for _ in range(self.scope.folds):
            log = root.object_log(self.random.choice(STORES))
            try:
                self.random.choice((log.fold, log.compact, log.vacuum))()
            except (CommitConflictError, CommitInDoubtError, StorageError):
                self.counts["keeper gave up"] += 1

    def play(self) -> None:
        """Run all until they are over or dead, and check what they were told."""
        lives: list[tuple[str, Callable[[Process], None]]] = [
            ("a", self.worker),
            ("b", self.worker),
            ("c", self.worker),
            ("s", self.stranger),
            ("k", self.keeper),
        ]
        if self.scope.is_brief:  # two workers, and one of the others
            lives = [*lives[:2], self.random.choice(lives[2:])]
        late: list[Request] = []
        running = [Process(name, life) for name, life in lives]
        asleep: dict[str, int] = {}
        failures: list[BaseException] = []
        chance = self.random
        for step in range(STEPS):
            for each in [each for each in running if each.is_over]:
                running.remove(each)
                if each.failure is not None:
                    failures.append(each.failure)
            if not running or failures:
                break
            if late and chance.random() < 0.02:
                self.memory.execute(late.pop(chance.randrange(len(late))))
                self.counts["late"] += 1
            awake = [each for each in running if asleep.get(each.name, 0) <= step]
            process = chance.choice(awake or running)
            if chance.random() < 0.01:
                asleep[process.name] = step + chance.choice((20, 100, 400))
                continue
            request = process.request
            assert request is not None
            if chance.random() >= self.faults:
                process.go_on(self.memory.execute(request))
            else:
                self.fail(process, request, late)
        for each in running:
            each.die()
        if failures:
            raise failures[0]
        chance.shuffle(late)
        for request in late:
            self.memory.execute(request)
        self.check()

    def fail(self, process: Process, request: Request, late: list[Request]) -> None:
        """Do *request* wrong."""
        kind = self.random.choice(("lost", "failed", "late", "conflict", "crash"))
        self.counts[kind] += 1
        changes = isinstance(request, Create | Replace | Delete)
        if kind == "crash":
            if self.random.random() < 0.5:
                self.memory.execute(request)
            elif changes:
                late.append(request)
            process.die()
        elif isinstance(request, Create | Replace):
            if kind == "lost":
                self.memory.execute(request)
            if kind == "late":
                late.append(request)
            process.go_on(Outcome.REFUSED if kind == "conflict" else Outcome.UNKNOWN)
        elif kind == "failed":
            process.go_on(StorageError("the object store does not answer"))
        elif kind == "late" and isinstance(request, Delete):
            late.append(request)
            process.go_on(None)
        else:
            process.go_on(self.memory.execute(request))

    def check(self) -> None:
        """Open the task with nobody else about, and compare with what everybody was told."""
        root = self.root(self.memory.execute)
        with self.opened(root, "last") as task:
            self.look(task, self.acknowledged | self.seen)
        records = [name for name in self.memory.objects if "/records/" in name]
        assert records == []

    def look(self, task: Task, before: set[str]) -> None:
        """Compare what the stores of *task* have with what was there *before* it was opened."""
        found: Mapping[str, dict[bytes, bytes]] = {
            name: dict(task.logged_store(name).store.range()) for name in STORES
        }
        where: dict[str, set[str]] = collections.defaultdict(set)
        for name, rows in found.items():
            for key, value in rows.items():
                where[key.decode()].add(name)
                assert value == b"%d" % self.numbers[key.decode()]
        for unique, stores in where.items():
            assert stores == self.attempted[unique], f"{unique} is torn: {stores}"
        assert not self.denied & where.keys(), "denied, and there"
        assert before <= where.keys(), "acknowledged or seen before, and not there"
        self.seen |= where.keys()
        numbers = [self.numbers[unique] for unique in where]
        assert sorted(numbers) == list(range(len(numbers))), "two have the same place"
        assert task.next_offset(INPUT) == len(numbers)
        self.counts["looks"] += 1
