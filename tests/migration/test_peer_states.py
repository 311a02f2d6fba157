"""What Quix Streams, Faust and Bytewax wrote themselves, read and imported."""

import json
import pickle
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from unpacking import unpack

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    SerializationError,
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.migration import (
    BytewaxRecoveryStore,
    FaustTables,
    QuixStateDirectory,
    import_peer_state,
    plan_peer_import,
)
from statestores.migration.peers.faust import _with_window
from statestores.registry import load_backend
from statestores.spi.kinds import KEY_VALUE
from statestores_conformance.many_cases import for_each

FIXTURES = Path(__file__).parent / "fixtures"
SUM = "sums.sum.stateful_flat_map.stateful.stateful_batch"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack what the three libraries have left."""
    pytest.importorskip("rocksdict")
    directory = tmp_path_factory.mktemp("peers")
    unpack(FIXTURES / "peers.tar.xz", directory)
    return directory


@pytest.fixture
def peers(unpacked: Path, tmp_path: Path) -> Path:
    """Return a copy of what the three libraries have left, to be damaged."""
    return shutil.copytree(unpacked, tmp_path / "peers")


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """Return what the libraries read themselves."""
    read: dict[str, Any] = json.loads((FIXTURES / "peers.json").read_text("utf-8"))
    return read


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return where to import to."""
    load_backend("sqlite")
    return tmp_path / "root"


def listing(directory: Path) -> dict[str, tuple[int, int]]:
    """Return each file's size and time of change."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*"))
    }


@pytest.mark.spec("MIG-16", "MIG-17")
def test_plain_stores_of_quix_hold_what_quix_reads(
    peers: Path, root: Path, expected: dict[str, Any]
) -> None:
    """Keys are the record's and the state's together; the changelog's offset comes along."""
    before = listing(peers)
    with QuixStateDirectory(peers / "quix" / "shop") as source:
        plan = plan_peer_import(source, "orders.default", value=ss.json)
        import_peer_state(source, root, [plan], backend="sqlite")

    assert listing(peers) == before
    for partition, record in ((0, b"bob|1"), (1, b"anna")):
        with ss.open_logged_store(root, "orders.default", partition) as logged:
            read = {
                name: logged.store.get(record + b'|"' + name.encode() + b'"')
                for name in ("count", "tags", "gone")
            }
            assert read == expected["quix"][f"default/{partition}"]
            assert logged.store.position == {
                ss.TopicPartition("changelog__shop--orders--default", partition): 91 + partition
            }


@pytest.mark.spec("MIG-16")
def test_values_of_quix_lose_what_says_when_they_expire(
    peers: Path, root: Path, expected: dict[str, Any]
) -> None:
    """A store with times to live has 8 bytes before each value."""
    with QuixStateDirectory(peers / "quix" / "shop") as source:
        plan = plan_peer_import(source, "orders.expiring", value=ss.json)
        import_peer_state(source, root, [plan], backend="sqlite")
    with ss.open_logged_store(root, "orders.expiring", 0) as logged:
        read = {
            name: logged.store.get(f'anna|"{name}"'.encode()) for name in ("short", "long", "ever")
        }

    assert read == expected["quix"]["expiring"]


@pytest.mark.spec("MIG-16")
def test_values_at_times_of_quix_are_versions(
    peers: Path, root: Path, expected: dict[str, Any]
) -> None:
    """What Quix Streams reads at a time, a versioned store reads as of it; one was expired."""
    with QuixStateDirectory(peers / "quix" / "shop") as source:
        plan = plan_peer_import(
            source, "orders.asof", retention_ms=60_000, key=ss.utf8, value=ss.json
        )
        import_peer_state(source, root, [plan], backend="sqlite")
    with ss.open_logged_store(root, "orders.asof", 0) as logged:
        records = [logged.store.get("EUR", as_of_ms=time) for time in (1_500, 2_500, 70_000)]

    assert [record and record.value for record in records] == expected["quix"]["asof"]


@pytest.mark.spec("MIG-9", "MIG-16")
def test_windows_and_sessions_of_quix(peers: Path, root: Path) -> None:
    """Windows of one length may be sessions that happen to be alike: only the caller knows."""
    with QuixStateDirectory(peers / "quix" / "shop") as source:
        with pytest.raises(InvalidArgumentError, match="window or session; say which"):
            plan_peer_import(source, "orders.tumbling", retention_ms=60_000)
        with pytest.raises(InvalidArgumentError, match="it is session"):
            plan_peer_import(source, "orders.sessions", kind="window", retention_ms=60_000)
        with pytest.raises(InvalidArgumentError, match="retention of the session store"):
            plan_peer_import(source, "orders.sessions")
        plans = [
            plan_peer_import(
                source, name, kind=kind, retention_ms=60_000, key=ss.utf8, value=ss.json
            )
            for name, kind in (("orders.tumbling", "window"), ("orders.sessions", None))
        ]
        import_peer_state(source, root, plans, backend="sqlite")
    with ss.open_logged_store(root, "orders.tumbling", 0) as windows:
        assert windows.store.fetch("anna", 10_000) == 5
        assert windows.store.fetch("b|ob", 10_000) == 1
    with ss.open_logged_store(root, "orders.sessions", 0) as sessions:
        assert sessions.store.fetch_session("anna", 1_000, 3_500) == 2


@pytest.mark.spec("MIG-16")
@pytest.mark.parametrize(
    ("store", "why"),
    [("orders.collected", "collect their values"), ("orders.twice", "several values of one time")],
)
def test_what_no_store_can_be_is_refused_by_name(peers: Path, store: str, why: str) -> None:
    """The other stores of the directory can be imported all the same."""
    with (
        QuixStateDirectory(peers / "quix" / "shop") as source,
        pytest.raises(UnsupportedFormatError, match=why),
    ):
        plan_peer_import(source, store, retention_ms=1)


@pytest.mark.spec("MIG-16", "MIG-17")
def test_tables_of_faust_hold_what_faust_reads(
    peers: Path, root: Path, expected: dict[str, Any]
) -> None:
    """Keys of JSON are found, and the row of the offset is no row."""
    before = listing(peers)
    with FaustTables(peers / "faust", application_id="shop") as source:
        plan = plan_peer_import(source, "counts", key=ss.json, value=ss.json)
        import_peer_state(source, root, [plan], backend="sqlite")

    assert listing(peers) == before
    for partition in (0, 1):
        with ss.open_logged_store(root, "counts", partition) as logged:
            assert dict(logged.store.range(None, None)) == expected["faust"][f"counts/{partition}"]
            assert logged.store.position == {
                ss.TopicPartition("shop-counts-changelog", partition): 20 + partition
            }


@pytest.mark.spec("MIG-9", "MIG-16", "MIG-17")
@pytest.mark.parametrize("table", ["visits/0", "visits/1", "hops/0"])
def test_windowed_tables_of_faust_are_windows(
    peers: Path, root: Path, expected: dict[str, Any], table: str
) -> None:
    """Tumbling or hopping; a table without windows might have such keys, so the caller says so."""
    name, _, partition = table.partition("/")
    with FaustTables(peers / "faust", application_id="shop") as source:
        with pytest.raises(InvalidArgumentError, match="key-value or window; say which"):
            plan_peer_import(source, name)
        plan = plan_peer_import(
            source, name, kind="window", retention_ms=1 << 50, key=ss.json, value=ss.json
        )
        import_peer_state(source, root, [plan], backend="sqlite")

    assert plan.specification == ss.Window(
        name, window_size_ms=10_000, retention_ms=1 << 50, key=ss.json, value=ss.json
    )
    with ss.open_logged_store(root, name, int(partition)) as logged:
        read = [
            [key, start, logged.store.fetch(key, start)]
            for key, start, _ in expected["faust"][table]
        ]
        assert read == expected["faust"][table]
        assert sum(1 for _ in logged.store.fetch_all(0, 1 << 45)) == len(read)


@pytest.mark.spec("MIG-16")
def test_windowed_tables_of_faust_can_stay_as_they_lie(peers: Path, root: Path) -> None:
    """Such a row is in its event's partition, not where the bytes of key and window would be."""
    with FaustTables(peers / "faust", application_id="shop") as source:
        plan = plan_peer_import(source, "visits", kind="key-value", key=ss.json, value=ss.json)
        import_peer_state(source, root, [plan], backend="sqlite")
    with ss.open_logged_store(root, "visits", 1) as logged:
        assert logged.store.get(["b|ob", [10.0, 19.9]]) == 2


@for_each(
    ("key", "split"),
    [
        (b'["a",[10.0,19.9]]', (b'"a"', 10_000, 20_000)),
        (b'[ "a" , [ 10 , 19.9 ] ]', (b'"a"', 10_000, 20_000)),
        (b'[["a",[1]],[-10.5,-0.6]]', (b'["a",[1]]', -10_500, -500)),
        ('["\N{SNOWMAN}],[",[0.0,0.9]]'.encode(), ('"\N{SNOWMAN}],["'.encode(), 0, 1_000)),
        *((each, None) for each in (b'"a"', b"a", b"", b"[", b"\xff", b'["a",[1]]')),
        *((each, None) for each in (b'["a",[1,2,3]]', b'["a","b",[1,2]]', b'{"a",[1,2]]')),
        *((each, None) for each in (b'["a",[1,2]]x', b"[" * 9_999)),
    ],
)
def test_a_key_is_taken_apart_where_it_has_a_window(
    key: bytes, split: tuple[bytes, int, int] | None
) -> None:
    """The key's bytes stay, and nothing that is no window is taken for one."""
    assert _with_window(key) == split


@pytest.mark.spec("MIG-15", "MIG-17")
def test_a_wrong_number_of_partitions_of_faust_is_found_by_the_keys(
    peers: Path, root: Path
) -> None:
    """Nothing of the partition is there afterwards, and the offset's topic is not guessed."""
    with FaustTables(peers / "faust") as source:
        plan = plan_peer_import(source, "counts", partitions=3)
        with pytest.raises(InvalidArgumentError, match="pass the application's id"):
            import_peer_state(source, root, [plan], backend="sqlite")
    with (
        FaustTables(peers / "faust", application_id="shop") as source,
        pytest.raises(InvalidArgumentError, match="another number of partitions"),
    ):
        import_peer_state(source, root, [plan], backend="sqlite")

    assert not root.exists()


@pytest.mark.spec("MIG-20")
def test_values_of_faust_that_the_serde_does_not_read_are_refused(peers: Path, root: Path) -> None:
    """The import took them as they were, and the first scan said that a value is damaged."""
    with FaustTables(peers / "faust", application_id="shop") as source:
        plan = plan_peer_import(source, "counts", value=ss.int64)
        with pytest.raises(SerializationError, match=r"the value of the key .* cannot be read"):
            import_peer_state(source, root, [plan], backend="sqlite")

    assert not (root / "counts").exists()


@pytest.mark.spec("MIG-16", "MIG-18")
def test_steps_of_bytewax_are_as_they_would_resume(
    peers: Path, root: Path, expected: dict[str, Any]
) -> None:
    """A key that was discarded is not there; values stay the pickles that they are."""
    with BytewaxRecoveryStore(peers / "bytewax") as source:
        assert source.resume_epoch == 11
        plan = plan_peer_import(source, SUM, key=ss.utf8, partitions=3)
        import_peer_state(source, root, [plan])
        with pytest.raises(StoreMismatchError, match="already"):
            import_peer_state(source, root, [plan])
        [again] = import_peer_state(source, root, [plan], skip_existing=True)
        with pytest.raises(InvalidArgumentError, match="when the store is opened"):
            import_peer_state(source, root, [plan], backend="sqlite")

    assert not again.is_new
    read: dict[str, Any] = {}
    for partition in range(3):
        with ss.open_logged_store(root, SUM, partition, backend="sqlite") as logged:
            for key, value in logged.store.range(None, None):
                read[key] = pickle.loads(value)  # noqa: S301  # made by tools/peer_states.py
    assert read == {key: total for key, total in expected["bytewax"].items() if total >= 0}


@pytest.mark.spec("MIG-16")
def test_a_recovery_store_with_a_part_missing_is_refused(peers: Path) -> None:
    """Half of the keys would look like all of them."""
    (peers / "bytewax" / "part-0.sqlite3").unlink()

    with pytest.raises(StoreCorruptedError, match="1 of 2"):
        BytewaxRecoveryStore(peers / "bytewax")


@pytest.mark.spec("MIG-16")
def test_a_database_that_its_program_has_open_is_refused(peers: Path) -> None:
    """RocksDB holds its file LOCK as long as the program has the database open."""
    lock = peers / "faust" / "v1" / "tables" / "counts-0.db" / "LOCK"
    hold = f"import fcntl; f = open({str(lock)!r}, 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(1)"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", hold + "; print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        program.stdout.readline()
        with (
            FaustTables(peers / "faust", application_id="shop") as source,
            pytest.raises(StoreLockedError, match="stop it"),
        ):
            source.offsets("counts", 0)
        program.communicate(b"\n")


@pytest.mark.spec("MIG-16")
def test_directories_of_nothing_say_what_to_give(tmp_path: Path) -> None:
    """Each names the directory that it wants."""
    with pytest.raises(StoreNotFoundError, match="<state_dir>/<consumer_group>"):
        QuixStateDirectory(tmp_path)
    with pytest.raises(StoreNotFoundError, match="<app-id>-data"):
        FaustTables(tmp_path)
    with pytest.raises(StoreNotFoundError, match=r"part-0\.sqlite3"):
        BytewaxRecoveryStore(tmp_path)


@pytest.mark.spec("MIG-16")
def test_a_damaged_table_is_no_shorter_table(peers: Path) -> None:
    """A row that cannot be read raises, whichever library it is of."""
    [table] = (peers / "faust" / "v1" / "tables" / "counts-1.db").glob("*.sst")
    data = bytearray(table.read_bytes())
    data[5] ^= 0xFF
    table.write_bytes(data)

    with (
        FaustTables(peers / "faust", application_id="shop") as source,
        pytest.raises(StoreCorruptedError, match="counts-1"),
    ):
        list(source.read("counts", 1, source.store("counts").kinds[0]))


@pytest.mark.spec("MIG-16")
def test_a_dataflow_that_goes_on_while_it_is_read_is_refused(peers: Path) -> None:
    """Nothing keeps Bytewax from its databases, and it removes the states that it has replaced.

    What was read as of the epoch of the opening had then lost keys, and was imported as all.
    """
    part = peers / "bytewax" / "part-0.sqlite3"
    with BytewaxRecoveryStore(peers / "bytewax") as source:
        for path in (part, part.with_name("part-1.sqlite3")):
            with closing(sqlite3.connect(path)) as bytewax:
                bytewax.execute("update fronts set worker_frontier = worker_frontier + 1")
                bytewax.commit()
        with pytest.raises(StorageError, match="has gone on while it was read; stop it first"):
            list(source.read(SUM, None, KEY_VALUE))


@pytest.mark.spec("MIG-15", "MIG-16")
@pytest.mark.parametrize("where", [".", "v1", "v1/tables/counts-0.db/state", "link"])
def test_a_state_root_in_what_is_imported_is_refused(peers: Path, where: str) -> None:
    """`--to` took a place in the directory that is only read, among the other program's files.

    A state root in the directory of Kafka Streams had its partition inside the RocksDB database of
    a store of the same name, which that program may remove.
    """
    source_directory = peers / "faust"
    link = peers / "link"
    link.symlink_to(source_directory / "v1")
    root = link / "state" if where == "link" else source_directory / where
    before = listing(source_directory)
    with FaustTables(source_directory, application_id="shop") as source:
        plan = plan_peer_import(source, "counts")
        with pytest.raises(InvalidArgumentError, match="give a directory outside of it"):
            import_peer_state(source, root, [plan], backend="sqlite")

    assert listing(source_directory) == before
