"""A store of each kind in a few partitions with its reads, and an application of two instances.

What the tests here import besides is in `kit`.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import statestores as ss
from statestores.errors import StateStoreError, UnreachableInstanceError
from statestores.partitioning import murmur2_partitioner
from statestores.query import (
    QueryableStores,
    QueryableStoreType,
    Question,
    RoutedStores,
    key_value_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)
from statestores.query.composite_key_value import CompositeKeyValueStore
from statestores.query.local_partitions import LocalPartitions
from statestores.query.metadata import (
    Host,
    InstanceMetadata,
    PartitionMetadata,
    Role,
    StoreMetadata,
)
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore
from statestores.tasks import TaskId, TaskManager

if TYPE_CHECKING:
    from threading import Barrier

KIT = str(Path(__file__).parent / "kit")
if KIT not in sys.path:
    sys.path.insert(0, KIT)

PARTITIONS = 3

Read = Callable[[Any, str], Any]


def _drained(found: Iterator[Any]) -> Any:
    """Return what an iterator gave; ``None`` for nothing, as for a value that is not there."""
    return list(found) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of store, and how it is written and read."""

    name: str
    specification: StoreSpecification[Any, Any]
    type: QueryableStoreType[Any]
    put: Callable[[Any, str, int], Any]
    """Writes one word with a number."""
    one_key: Mapping[str, Read]
    """The reads of one key: they give ``None`` when it is not there."""
    all_keys: Mapping[str, Read]
    """The reads of all partitions."""
    iterators: Mapping[str, Callable[[Any, str], Iterator[Any]]]
    """Reads that are drained bit by bit."""


KINDS = (
    Kind(
        name="key-value",
        specification=ss.KeyValue("s", key=ss.utf8, value=ss.int64),
        type=key_value_store(),
        put=lambda store, word, number: store.put(word, number),
        one_key={
            "get": lambda store, word: store.get(word),
            "get_many": lambda store, word: store.get_many([word])[0],
        },
        all_keys={
            "range": lambda store, _: _drained(store.range()),
            "prefix_scan": lambda store, _: _drained(store.prefix_scan(b"")),
        },
        iterators={
            "range bit by bit": lambda store, _: store.range(),
            "range backwards": lambda store, _: store.range("k05", "k20", reverse=True),
            "prefix bit by bit": lambda store, _: store.prefix_scan(b"k1"),
        },
    ),
    Kind(
        name="timestamped",
        specification=ss.TimestampedKeyValue("s", key=ss.utf8, value=ss.int64),
        type=timestamped_key_value_store(),
        put=lambda store, word, number: store.put(word, number, timestamp_ms=100 + number),
        one_key={
            "get": lambda store, word: store.get(word),
            "get_many": lambda store, word: store.get_many([word])[0],
        },
        all_keys={
            "range": lambda store, _: _drained(store.range()),
            "stream_time_ms": lambda store, _: store.stream_time_ms,
        },
        iterators={
            "range bit by bit": lambda store, _: store.range(),
            "range backwards": lambda store, _: store.range("k05", "k20", reverse=True),
            "prefix bit by bit": lambda store, _: store.prefix_scan(b"k1"),
        },
    ),
    Kind(
        name="versioned",
        specification=ss.Versioned("s", history_retention_ms=1_000, key=ss.utf8, value=ss.int64),
        type=versioned_store(),
        put=lambda store, word, number: store.put(word, number, timestamp_ms=100 + number),
        one_key={
            "get": lambda store, word: store.get(word),
            "get as of": lambda store, word: store.get(word, as_of_ms=500),
            "get_many": lambda store, word: store.get_many([word])[0],
            "get_many as of": lambda store, word: store.get_many([word], as_of_ms=500)[0],
            "history": lambda store, word: _drained(store.history(word)),
        },
        all_keys={
            "scan_as_of": lambda store, _: _drained(store.scan_as_of(500)),
            "stream_time_ms": lambda store, _: store.stream_time_ms,
        },
        iterators={
            "scan bit by bit": lambda store, _: store.scan_as_of(None),
            "scan backwards": lambda store, _: store.scan_as_of(130, reverse=True),
            "history bit by bit": lambda store, word: store.history(word),
        },
    ),
    Kind(
        name="window",
        specification=ss.Window(
            "s", retention_ms=1_000, window_size_ms=10, key=ss.utf8, value=ss.int64
        ),
        type=window_store(),
        put=lambda store, word, number: store.put(word, number, window_start_ms=100),
        one_key={
            "fetch": lambda store, word: store.fetch(word, 100),
            "fetch_range": lambda store, word: _drained(store.fetch_range(word)),
        },
        all_keys={
            "fetch_all": lambda store, _: _drained(store.fetch_all()),
            "stream_time_ms": lambda store, _: store.stream_time_ms,
        },
        iterators={
            "fetch_all bit by bit": lambda store, _: store.fetch_all(),
            "fetch_all backwards": lambda store, _: store.fetch_all(reverse=True),
            "fetch_range bit by bit": lambda store, word: store.fetch_range(word),
        },
    ),
    Kind(
        name="session",
        specification=ss.Session("s", retention_ms=1_000, key=ss.utf8, value=ss.int64),
        type=session_store(),
        put=lambda store, word, number: store.put(word, 100, 110, number),
        one_key={
            "fetch_session": lambda store, word: store.fetch_session(word, 100, 110),
            "find_sessions": lambda store, word: _drained(store.find_sessions(word)),
        },
        all_keys={
            "find_all_sessions": lambda store, _: _drained(store.find_all_sessions()),
            "find_sessions_by_end": lambda store, _: _drained(store.find_sessions_by_end()),
        },
        iterators={
            "sessions bit by bit": lambda store, _: store.find_all_sessions(),
            "by end backwards": lambda store, _: store.find_sessions_by_end(reverse=True),
            "one key bit by bit": lambda store, word: store.find_sessions(word),
        },
    ),
)


class Members:
    """The partitions of one store, as a task manager would show them."""

    def __init__(self, directory: Path, specification: Any, backend: str = "memory") -> None:
        self._specification = specification
        self.stores: dict[int, Any] = {
            number: ss.open_store(directory / str(number), specification, backend=backend)
            for number in range(PARTITIONS)
        }
        self.here = set(self.stores)
        self.facades: dict[int, ReadOnlyStore] = {
            number: store.read_only() for number, store in self.stores.items()
        }

    def unready(self, name: str) -> dict[int, str]:
        """Return nothing: all of them are open."""
        return {}

    def local_stores(
        self, name: str, *, include_stale: bool = False
    ) -> Mapping[int, ReadOnlyStore]:
        """Return the partitions that are here."""
        return {number: self.facades[number] for number in self.here}

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what the store is."""
        specification: StoreSpecification[Any, Any] = self._specification
        return specification

    def partition_count(self, name: str) -> int:
        """Return how many partitions there are."""
        return PARTITIONS

    def commit(self, partition: int, position: Mapping[ss.TopicPartition, int]) -> None:
        """Commit what is pending in *partition*, with the inputs that it reflects."""
        self.stores[partition].advance_position(position)
        self.stores[partition].commit({})

    @property
    def queries(self) -> QueryableStores:
        """The store as its queries see it."""
        return QueryableStores(self)

    def close(self) -> None:
        """Close the partitions."""
        for store in self.stores.values():
            store.close()


@pytest.fixture
def open_members(tmp_path: Path) -> Iterator[Callable[..., Members]]:
    """Return the function that opens the partitions of a store, and close them in the end."""
    opened: list[Members] = []

    def open_one(specification: Any, backend: str = "memory") -> Members:
        opened.append(Members(tmp_path / str(len(opened)), specification, backend))
        return opened[-1]

    yield open_one
    for members in opened:
        members.close()


@pytest.fixture
def kinds() -> tuple[Kind, ...]:
    """Return every kind of store that a composite reads."""
    return KINDS


COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
_PATIENCE_SECONDS = 60.0
WORDS = [f"w{number:02d}" for number in range(30)]
INPUT = ss.TopicPartition("words", 0)
ROLES = {
    "running": Role.ACTIVE,
    "restoring": Role.RESTORING,
    "promoting": Role.PROMOTING,
    "standby": Role.STANDBY,
}


def home(word: str) -> int:
    """Return the partition of a word."""
    return murmur2_partitioner.partition(word.encode(), PARTITIONS)


class Application:
    """Two instances in one process: a membership, and a way of asking that counts and fails."""

    def __init__(self, path: Path) -> None:
        self.root = ss.StateRoot.create(path / "state")
        self.root.add_store(COUNTS, partitions=PARTITIONS)
        self.managers = {
            name: TaskManager(
                self.root,
                {0: ["counts"]},
                local_directory=path / name,
                backend="memory",
                follow_interval_s=3600,
            )
            for name in ("one", "two")
        }
        self.hosts = {"one": Host("h", 1), "two": Host("h", 2)}
        self.failures: dict[str, list[StateStoreError]] = {"one": [], "two": []}
        self.dead: set[str] = set()
        self.asked: list[tuple[str, int | None]] = []
        self.meeting: Barrier | None = None

    def instances(self) -> dict[str, InstanceMetadata]:
        """Return what both are, however dead: nobody has noticed yet."""
        return {name: self.instance(name) for name in self.managers}

    def instance(self, name: str) -> InstanceMetadata:
        """Return what an instance says of itself."""
        manager = self.managers[name]
        lags = manager.all_local_store_partition_lags().get("counts", {})
        return InstanceMetadata(
            instance=name,
            host=self.hosts[name],
            stores={"counts": StoreMetadata(description=COUNTS.describe(), partitions=PARTITIONS)},
            partitions={
                "counts": {
                    task.partition: PartitionMetadata(
                        role=ROLES[state.value],
                        current_offset=lags[task.partition].current_offset,
                        end_offset=lags[task.partition].end_offset,
                    )
                    for task, state in manager.states.items()
                }
            },
        )

    def publish(self, instance: InstanceMetadata) -> None:
        """Know nothing more."""

    def leave(self, instance: str) -> None:
        """Know nothing less."""

    def store(self, host: Host, question: Question) -> Any:
        """Return the store at *host*, as the network would give it."""
        name = next(each for each, at in self.hosts.items() if at == host)
        self.asked.append((name, question.partition))
        if self.meeting is not None:
            self.meeting.wait(_PATIENCE_SECONDS)
        if name in self.dead:
            raise UnreachableInstanceError(f"{name} does not answer")
        if self.failures[name]:
            raise self.failures[name].pop(0)
        return CompositeKeyValueStore(
            LocalPartitions(
                self.managers[name],
                question.specification.name,
                lambda _: True,
                question,
            )
        )

    def put(self, words: dict[str, int], offset: int) -> None:
        """Write *words* where they belong, wherever that is active."""
        for manager in self.managers.values():
            for task_id, task in manager.tasks.items():
                for word, number in words.items():
                    if home(word) == task_id.partition:
                        task.store("counts").put(word, number)
                task.commit({INPUT: offset})

    def poll(self) -> None:
        """Let every standby catch up."""
        for manager in self.managers.values():
            for copies in manager.standbys.values():
                for standby in copies:
                    standby.poll()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    """Return two instances: one has partition 0, two the others, and one copies of these."""
    made = Application(tmp_path)
    made.managers["one"].assign([TaskId(0, 0)], [TaskId(0, 1), TaskId(0, 2)])
    made.managers["two"].assign([TaskId(0, 1), TaskId(0, 2)])
    made.put({word: number for number, word in enumerate(WORDS)}, 1)
    made.poll()
    yield made
    for manager in made.managers.values():
        manager.close()


@pytest.fixture
def queries(app: Application) -> Iterator[RoutedStores]:
    """Return the queries of a third process, which has nothing."""
    with RoutedStores(app, app, timeout_s=0.2) as routed:
        yield routed
