"""State roots and stores to look into, and the command line to do it with."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from command_line import invoke

import statestores as ss
from statestores.errors import MissingDriverError
from statestores.logged_store import open_logged_store
from statestores.partitioning import murmur2_partitioner
from statestores.registry import load_backend

PARTITIONS = 3
T0 = 1_372_896_000_000
"""4 July 2013, midnight in UTC."""

PLANES = ss.Versioned("planes", history_retention_ms=30 * ss.DAY, key=ss.utf8, value=ss.json)
COUNTS = ss.KeyValue("counts", key=ss.int64_sorted)
KEYS = [f"N{number:03d}ü" for number in range(20)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command has printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON lines on standard output."""
        return [json.loads(line) for line in self.out.splitlines()]


Run: TypeAlias = Callable[..., Outcome]


@pytest.fixture
def run() -> Run:
    """Return the function that runs one command."""

    def runner(*arguments: object) -> Outcome:
        result = invoke(*arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return runner


@pytest.fixture
def succeed(run: Run) -> Run:
    """Return the function that runs one command, which has to succeed."""

    def runner(*arguments: object) -> Outcome:
        outcome = run(*arguments)
        assert outcome.code == 0, outcome
        return outcome

    return runner


def skip_without(backend: str) -> str:
    """Return *backend*; skip the test when its driver is not installed."""
    try:
        load_backend(backend)
    except MissingDriverError as error:
        pytest.skip(str(error))
    return backend


@pytest.fixture(params=["rocksdb", "leveldb", "sqlite"])
def persistent(request: pytest.FixtureRequest) -> str:
    """Name each backend that keeps its files."""
    return skip_without(str(request.param))


def _partition_of(key: str) -> int:
    """Return the partition of `PLANES` that holds *key*."""
    return murmur2_partitioner.partition(key.encode(), PARTITIONS)


@pytest.fixture
def partition_of() -> Callable[[str], int]:
    """Return the function from a plane to the partition that holds it."""
    return _partition_of


def fill_planes(root: ss.StateRoot, backend: str) -> None:
    """Write five days of `KEYS`, some of them late, and every fourth a deletion."""
    root.add_store(PLANES, partitions=PARTITIONS)
    stores = [
        open_logged_store(root, "planes", number, backend=backend) for number in range(PARTITIONS)
    ]
    try:
        for day in range(5):
            for number, key in enumerate(KEYS):
                value = {"day": day, "plane": number} if (number + day) % 4 else None
                late_ms = 2 * ss.DAY if number % 3 == 0 else 0
                time_ms = T0 + day * ss.DAY - late_ms
                stores[_partition_of(key)].store.put(key, value, timestamp_ms=time_ms)
            for number, store in enumerate(stores):
                store.commit({ss.TopicPartition("flights", number): day})
    finally:
        for store in stores:
            store.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a state root of a versioned store that no engine keeps, and a key-value store."""
    state = ss.StateRoot.create(tmp_path / "state")
    fill_planes(state, "memory")
    state.add_store(COUNTS, partitions=1)
    with open_logged_store(state, "counts", 0, backend="memory") as counts:
        for number in range(-5, 45):
            counts.store.put(number, b"\xff%d\x1b[31m" % number)
        counts.commit()
    return state.path


@pytest.fixture
def kept(tmp_path: Path, persistent: str) -> Path:
    """Make a state root of a versioned store on each persistent backend."""
    state = ss.StateRoot.create(tmp_path / "kept")
    fill_planes(state, persistent)
    return state.path


@pytest.fixture
def bare(tmp_path: Path, persistent: str) -> Path:
    """Make a key-value store of bytes without a changelog on each persistent backend."""
    path = tmp_path / "bare"
    with ss.open_store(path, ss.KeyValue("bare"), backend=persistent) as store:
        for key in (b"a", b"a\x00\xff", b"b", b"c"):
            store.put(key, b"value of " + key)
        store.put("ключ".encode(), "значение\n".encode())
        store.commit({ss.TopicPartition("elsewhere", 0): 7})
    return path
