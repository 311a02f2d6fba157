"""Stores on every backend, content to put into them, and the modules in `kit`."""

import os
import random
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

from statestores.arrow import read_snapshot, write_snapshot
from statestores.changelog.contract import ReadOnlyChangelog
from statestores.changelog.frame import Frame, FrameKind
from statestores.changelog.rows import batch_from_changes, change_schema, empty_batch
from statestores.errors import InvalidOptionError, MissingDriverError
from statestores.registry import backend_names, load_backend
from statestores.semantics import open_on_engine
from statestores.spi import (
    Durability,
    KeyValue,
    KeyValueStore,
    Position,
    StateStore,
    StoreSpecification,
    TopicPartition,
    Versioned,
    VersionedStore,
)

KIT = str(Path(__file__).parent / "kit")
if KIT not in sys.path:
    sys.path.insert(0, KIT)

COUNTS = KeyValue("counts")
RATES = Versioned("rates", history_retention_ms=1_000)
INPUT = TopicPartition("input", 0)


class OpenStore(Protocol):
    """The function that opens a store."""

    def __call__(
        self, specification: StoreSpecification[Any, Any], backend: str = ..., path: str = ...
    ) -> Any:
        """Open a store in a new directory, or again in the one that is named."""


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[OpenStore]:
    """Open stores of bytes that are closed after the test."""
    opened: list[StateStore] = []

    def opener(
        specification: StoreSpecification[Any, Any], backend: str = "memory", path: str = ""
    ) -> Any:
        directory = tmp_path / "stores" / (path or f"{len(opened)}-{specification.name}")
        try:
            engine = load_backend(backend).open(directory)
        except (MissingDriverError, InvalidOptionError) as error:
            # A driver that is not installed, or a server that nobody has named.
            if backend in os.environ.get("STATESTORES_REQUIRE_BACKENDS", "").split(","):
                raise
            pytest.skip(str(error))
        store = open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH)
        opened.append(store)
        return store

    yield opener
    for store in opened:
        store.close()


@pytest.fixture
def counts_log() -> TopicPartition:
    return TopicPartition("counts-changelog", 0)


@pytest.fixture
def rates_log() -> TopicPartition:
    return TopicPartition("rates-changelog", 0)


@pytest.fixture
def counts(open_store: OpenStore, counts_log: TopicPartition) -> KeyValueStore[bytes, bytes]:
    """Open a key-value store of 1,000 keys at offset 41; one write is pending."""
    store: KeyValueStore[bytes, bytes] = open_store(COUNTS)
    for number in range(1_000):
        store.put(b"key-%04d" % number, b"value-%d" % (number * 7))
    store.put(b"", b"")
    store.put(b"key-\x00\xff", b"\x00")
    store.delete(b"key-0500")
    store.advance_position({TopicPartition("input", 0): 99, TopicPartition("input", 1): 3})
    store.commit({counts_log: 41})
    store.put(b"pending", b"not committed")
    return store


@pytest.fixture
def rates(open_store: OpenStore, rates_log: TopicPartition) -> VersionedStore[bytes, bytes]:
    """Open a versioned store with deletions, late puts and expired history, at offset 7."""
    store: VersionedStore[bytes, bytes] = open_store(RATES)
    chance = random.Random(20260601)
    for step in range(2_000):
        key = b"%d" % chance.randrange(60)
        value = None if chance.random() < 0.15 else b"%d" % step
        store.put(key, value, max(0, step - chance.randrange(400)))
    store.advance_position({TopicPartition("input", 0): 1_999})
    store.commit({rates_log: 7})
    return store


@pytest.fixture
def persistent_backend(backend: str, tmp_path: Path) -> str:
    """Give each backend that leaves something to find again, and can be opened here."""
    try:
        engine = load_backend(backend).open(tmp_path / "probe")
    except (MissingDriverError, InvalidOptionError) as error:
        if backend in os.environ.get("STATESTORES_REQUIRE_BACKENDS", "").split(","):
            raise
        pytest.skip(str(error))
    engine.close()
    if not engine.capabilities.persistent:
        pytest.skip(f"the {backend!r} backend is not persistent")
    return backend


Answers = dict[str, Any]


@pytest.fixture(scope="session")
def answers() -> Callable[[Any], Answers]:
    """Return a function that asks a store for everything that is committed."""

    def ask(store: Any) -> Answers:
        facade = store.read_only()
        found: Answers = {"position": facade.position, "offsets": store.committed_offsets()}
        if isinstance(store, KeyValueStore):
            found["pairs"] = list(facade.range())
            return found
        found["stream time"] = facade.stream_time_ms
        found["latest"] = list(facade.scan_as_of())
        keys = sorted(
            {chunk_key for chunk in store.committed_changes() for chunk_key in chunk.keys}
        )
        found["history"] = {key: list(facade.history(key)) for key in keys}
        stream_time = facade.stream_time_ms or 0
        for as_of_ms in range(0, stream_time + 200, 50):
            found[f"as of {as_of_ms}"] = list(facade.scan_as_of(as_of_ms))
        return found

    return ask


@cache
def _backends() -> list[str]:
    """Return the names of all backends, of PostgreSQL's only if somebody has named a server.

    Once: to find them is to read what all installed packages say of themselves.
    """
    wanted = os.environ.get("STATESTORES_REQUIRE_BACKENDS", "").split(",")
    has_server = "STATESTORES_POSTGRESQL_URL" in os.environ or "postgresql" in wanted
    return [name for name in backend_names() if has_server or name != "postgresql"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what asks for a `backend` on each of them, and for a `source` and a `target` on pairs."""
    for name in ("backend", "source", "target"):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, _backends())


class ListChangelog(ReadOnlyChangelog):
    """A changelog in a list, so that tests of restoring do not test a file format."""

    def __init__(self, store_kind: str) -> None:
        self._store_kind = store_kind
        self._frames: list[Frame] = []
        self._first_offset = 0
        self._position = Position()

    def record(self, store: StateStore) -> int:
        """Append what is pending in *store* and return the offset to commit."""
        schema = change_schema(self._store_kind)
        batch = batch_from_changes(schema, store.pending_changes())
        return self._append(FrameKind.CHANGES, batch, store.position)

    def record_clear(self) -> int:
        """Append that everything before is dropped."""
        return self._append(
            FrameKind.CLEAR, empty_batch(change_schema(self._store_kind)), Position()
        )

    def forget_until(self, offset: int) -> None:
        """Drop the frames that end before *offset*."""
        self._frames = [frame for frame in self._frames if frame.last_offset >= offset]
        self._first_offset = offset

    def forget_everything(self) -> None:
        """Lose all frames, as a changelog does that someone deleted."""
        self._frames, self._first_offset = [], 0

    def _append(self, kind: FrameKind, batch: pa.RecordBatch, position: Position) -> int:
        base = self.end_offset
        last: int = base + max(batch.num_rows, 1) - 1
        self._frames.append(
            Frame(
                kind=kind,
                base_offset=base,
                last_offset=last,
                appended_at_ms=0,
                position=position,
                batch=batch,
            )
        )
        return last

    @property
    def store_kind(self) -> str:
        """Return the kind that it was made for."""
        return self._store_kind

    @property
    def is_open(self) -> bool:
        """Return that it is: there is nothing to close."""
        return True

    @property
    def first_offset(self) -> int:
        """Return the lowest offset that has not been forgotten."""
        return self._first_offset

    @property
    def end_offset(self) -> int:
        """Return the offset of the next append."""
        return self._frames[-1].last_offset + 1 if self._frames else self._first_offset

    @property
    def position(self) -> Position:
        """Return none: no test asks."""
        return self._position

    def read(self, from_offset: int | None = None, to_offset: int | None = None) -> Iterator[Frame]:
        """Yield the frames in the range, cut at its ends."""
        start = self._first_offset if from_offset is None else from_offset
        stop = self.end_offset if to_offset is None else to_offset
        for frame in list(self._frames):
            if frame.last_offset >= start and frame.base_offset < stop:
                yield frame.within(start, stop)

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
def counts_changelog() -> ListChangelog:
    return ListChangelog("key-value")


@pytest.fixture
def rates_changelog() -> ListChangelog:
    return ListChangelog("versioned")


@pytest.fixture(scope="session")
def make_changelog() -> type[ListChangelog]:
    """Return the class, for tests that need a changelog for each example."""
    return ListChangelog


def _write_commits(store: Any, changelog: Any, log: TopicPartition, commits: range) -> None:
    """Change the store as a log-backed one does: the changelog first."""
    for commit in commits:
        for number in range(5):
            store.put(b"%d" % ((commit * 3 + number) % 20), b"%d-%d" % (commit, number))
        store.delete(b"%d" % (commit % 20))
        store.advance_position({INPUT: commit})
        store.commit({log: changelog.record(store)})


@pytest.fixture
def live(
    open_store: Any, counts_changelog: Any, counts_log: TopicPartition, tmp_path: Path
) -> KeyValueStore[bytes, bytes]:
    """Open a store with a changelog of 40 commits, and a snapshot after 20 of them."""
    store: KeyValueStore[bytes, bytes] = open_store(COUNTS)
    _write_commits(store, counts_changelog, counts_log, range(20))
    write_snapshot(store, tmp_path / "snapshots")
    _write_commits(store, counts_changelog, counts_log, range(20, 40))
    return store


@pytest.fixture
def snapshot(live: KeyValueStore[bytes, bytes], tmp_path: Path) -> Any:
    (path,) = (tmp_path / "snapshots").iterdir()
    return read_snapshot(path)


@pytest.fixture
def write_commits() -> Callable[[Any, Any, TopicPartition, range], None]:
    """Change a store and its changelog, commit by commit."""
    return _write_commits
