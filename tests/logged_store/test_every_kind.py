"""Stores of every kind through changelog, compaction, snapshot, restore and readers.

What the live store shows is what a restored one shows, and what a reader without the lock sees.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow import export_file, import_file
from statestores.arrow.files.importing import open_rows_file
from statestores.changelog import FileChangelog, compact
from statestores.reading.partition_reader import PartitionReader
from statestores.spi.kinds import KINDS

KEYS = [b"a", b"a\x00", b"b", b"", b"\xff\xff", "ключ".encode()]
INPUT = ss.TopicPartition("events", 0)
COMMITS = 36
"""Over four times what a store retains."""

Write = Callable[[Any, random.Random, int], object]


def _stamped(store: Any, chance: random.Random, now: int) -> object:
    """Put or delete; timestamps lag behind by up to 80 ms."""
    key = chance.choice(KEYS)
    if chance.random() < 0.1:
        return store.delete(key)
    return store.put(key, b"%d" % now, timestamp_ms=max(0, now - chance.randint(0, 80)))


def _window(store: Any, chance: random.Random, now: int) -> object:
    start = max(0, now - chance.randint(0, 80)) // 10 * 10
    value = None if chance.random() < 0.1 else b"%d" % now
    return store.put(chance.choice(KEYS), value, window_start_ms=start)


def _duplicates(store: Any, chance: random.Random, now: int) -> object:
    start = max(0, now - chance.randint(0, 80)) // 10 * 10
    return store.put(chance.choice(KEYS), b"%d" % now, window_start_ms=start)


def _session(store: Any, chance: random.Random, now: int) -> object:
    end = max(0, now - chance.randint(0, 80)) // 5 * 5
    start = max(0, end - 5 * chance.randint(0, 5))
    value = None if chance.random() < 0.1 else b"%d" % now
    return store.put(chance.choice(KEYS), start, end, value)


def _key_values(store: Any) -> list[Any]:
    return list(store.range())


def _windows(store: Any) -> list[Any]:
    return list(store.fetch_all())


def _sessions(store: Any) -> list[Any]:
    return list(store.find_all_sessions())


CASES: dict[str, tuple[Any, Write, Callable[[Any], list[Any]], Callable[[Any], Any]]] = {
    "timestamped": (
        ss.TimestampedKeyValue("store"),
        _stamped,
        _key_values,
        lambda row: (row["key"], (row["value"], row["timestamp"])),
    ),
    "ttl": (
        ss.TimestampedKeyValue("store", ttl_ms=60),
        _stamped,
        _key_values,
        lambda row: (row["key"], (row["value"], row["timestamp"])),
    ),
    "window": (
        ss.Window("store", retention_ms=60, window_size_ms=10),
        _window,
        _windows,
        lambda row: (row["key"], row["window_start"], row["window_start"] + 10, row["value"]),
    ),
    "duplicates": (
        ss.Window("store", retention_ms=60, window_size_ms=10, retain_duplicates=True),
        _duplicates,
        _windows,
        lambda row: (row["key"], row["window_start"], row["window_start"] + 10, row["value"]),
    ),
    "session": (
        ss.Session("store", retention_ms=60),
        _session,
        _sessions,
        lambda row: (row["key"], row["session_start"], row["session_end"], row["value"]),
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    """Name one of the kinds."""
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path, case: str) -> ss.StateRoot:
    """A state root with a store of the kind."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(CASES[case][0], partitions=1)
    return state


def _run(
    logged: Any, write: Write, *, commits: int, seed: int, first: int = 0
) -> Iterator[tuple[int, int]]:
    """Write and commit; yield the offset of each commit and its number."""
    chance = random.Random(seed)
    for number in range(first, first + commits):
        for step in range(chance.randint(1, 8)):
            write(logged.store, chance, 100 + number * 7 + step)
        yield logged.commit({INPUT: number}), number


def _read(root: ss.StateRoot, case: str, **arguments: Any) -> list[Any]:
    """Return what a reader without the lock sees, as the store's own records."""
    specification, _, _, record = CASES[case]
    reader = PartitionReader(root.partition("store", 0), specification)
    rows = [row for batch in reader.rows(**arguments) for row in batch.to_pylist()]
    return [record(row) for row in rows]


@pytest.mark.spec("LGS-6", "SNP-9", "SNP-10", "COM-32")
@pytest.mark.parametrize(
    "backend", [pytest.param("memory", marks=pytest.mark.long), "rocksdb", "sqlite"]
)
def test_restored_and_read_alike(root: ss.StateRoot, case: str, backend: str) -> None:
    """After every commit a reader sees what the store shows; so does a store that is restored.

    From the changelog alone, from a snapshot and the tail, and from the compacted log.
    """
    specification, write, show, _ = CASES[case]
    seen: dict[int, list[Any]] = {}
    with ss.open_logged_store(root, "store", backend=backend) as logged:
        for offset, number in _run(logged, write, commits=COMMITS, seed=7):
            shown = [tuple(record) for record in show(logged.store)]
            seen[offset] = shown
            assert _read(root, case) == shown
            if number == COMMITS // 2:
                logged.snapshot()
        stream_time_ms = logged.store.stream_time_ms
        for offset, shown in [*seen.items()][::2]:
            assert _read(root, case, offset=offset) == shown
        if isinstance(logged.changelog, FileChangelog):
            logged.changelog.seal()
    last = seen[max(seen)]
    assert last

    local = root.path.parent
    with ss.open_logged_store(root, "store", backend="sqlite", directory=local / "one") as restored:
        assert restored.restored.snapshot_offset is not None
        _check(restored, show, last, stream_time_ms)
    for path in root.partition("store", 0).snapshots.glob("*"):
        path.rename(local / f"moved-{path.name}")
    with ss.open_logged_store(
        root, "store", backend="leveldb", directory=local / "two"
    ) as restored:
        assert restored.restored.snapshot_offset is None
        _check(restored, show, last, stream_time_ms)
    retention_ms = getattr(specification, "retention_ms", None)
    with FileChangelog.open(root.partition("store", 0).changelog, specification.kind) as log:
        report = compact(log, retention_ms=retention_ms)
        assert report.changes_after < report.changes_before
    with ss.open_logged_store(
        root, "store", backend="memory", directory=local / "three"
    ) as restored:
        _check(restored, show, last, stream_time_ms)
        for _ in _run(restored, write, commits=5, seed=8, first=COMMITS):
            assert _read(root, case) == [tuple(record) for record in show(restored.store)]


def _check(
    restored: Any, show: Callable[[Any], list[Any]], shown: list[Any], stream_time_ms: int | None
) -> None:
    """Compare a restored store with what the live one showed last."""
    assert [tuple(record) for record in show(restored.store)] == shown
    assert restored.store.stream_time_ms == stream_time_ms
    assert restored.position == {INPUT: COMMITS - 1}


@pytest.mark.spec("SNP-18")
@pytest.mark.parametrize("suffix", [".arrow", ".parquet"])
def test_exported_and_imported_alike(
    root: ss.StateRoot, case: str, suffix: str, tmp_path: Path
) -> None:
    """A file of the rows makes the same store in another backend, of bytes or of typed columns."""
    specification, write, show, _ = CASES[case]
    times = {column.row_name for column in KINDS[specification.kind].numbers if column.is_time}
    with ss.open_logged_store(root, "store", backend="memory") as logged:
        for _ in _run(logged, write, commits=30, seed=3):
            pass
        shown = show(logged.store)
        stream_time_ms = logged.store.stream_time_ms
        for typed in (False, True):
            export_file(logged.store, tmp_path / f"{typed}{suffix}", typed=typed)

    for typed in (False, True):
        file = tmp_path / f"{typed}{suffix}"
        with open_rows_file(file) as rows:
            stamps = {column.name for column in rows.schema if pa.types.is_timestamp(column.type)}
        assert stamps == (times if typed else set())
        with ss.open_store(tmp_path / f"copy-{typed}", specification, backend="sqlite") as copy:
            accepted = import_file(copy, file)
            assert show(copy) == shown
            assert accepted == len(shown)
            newest: Any = copy
            assert newest.stream_time_ms <= stream_time_ms


@pytest.mark.spec("LOG-2", "LOG-24")
def test_what_a_changelog_of_a_kind_holds(root: ss.StateRoot, case: str) -> None:
    """The columns of each kind, as a reader of the change feed gets them."""
    specification, write, _, _ = CASES[case]
    with ss.open_logged_store(root, "store", backend="memory") as logged:
        for _ in _run(logged, write, commits=5, seed=1):
            pass
    reader = PartitionReader(root.partition("store", 0), specification)
    changes = pa.Table.from_batches(list(reader.changes()), reader.change_schema())

    assert changes.schema.names[:5] == ["offset", "partition", "operation", "key", "value"]
    assert (
        changes.schema.names[5:]
        == {
            "timestamped-key-value": ["timestamp"],
            "window": ["window_start", "sequence"],
            "session": ["session_start", "session_end"],
        }[specification.kind]
    )
    if case == "duplicates":
        assert changes["sequence"].null_count == 0
    elif case == "window":
        assert changes["sequence"].null_count == changes.num_rows
