"""Stores of Kafka Streams become stores of a state root, whole or not at all."""

import json
import shutil
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from command_line import invoke

import statestores as ss
from statestores.arrow.progress import Progress
from statestores.errors import (
    InvalidArgumentError,
    SerializationError,
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
)
from statestores.files.directory_lock import DirectoryLock
from statestores.migration import (
    ImportPlan,
    KafkaKind,
    KafkaStateDirectory,
    import_kafka_state,
    plan_import,
)

Rows: TypeAlias = list[dict[str, Any]]

RETENTION_MS = 10 * ss.MINUTE
SIZE_MS = ss.MINUTE

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def import_one(application: Path, root: Path, store: str, **options: Any) -> ImportPlan:
    """Import one store on SQLite, and return its plan."""
    with KafkaStateDirectory(application) as source:
        plan = plan_import(source, store, **options)
        import_kafka_state(source, root, [plan], backend="sqlite")
    return plan


@pytest.mark.spec("MIG-14")
def test_a_key_value_store(application: Path, tmp_path: Path, expected: dict[str, Rows]) -> None:
    """Rows, offset and position are there, in the engine and in the changelog."""
    import_one(application, tmp_path / "root", "plain")
    with ss.open_logged_store(tmp_path / "root", "plain", 0, backend="sqlite") as logged:
        assert list(logged.store.range()) == [
            (row["key"], row["value"]) for row in expected["plain"]
        ]
        changelog = ss.TopicPartition("fixture-plain-changelog", 0)
        assert logged.position == {changelog: 88, ss.TopicPartition("input", 0): 88}
        assert logged.next_offset(changelog) == 89
        assert logged.changelog.end_offset > 0


@pytest.mark.spec("MIG-14")
def test_a_lost_engine_is_restored(application: Path, tmp_path: Path) -> None:
    """From the snapshot and the changelog, with the offset that Kafka Streams had."""
    import_one(application, tmp_path / "root", "plain")
    with ss.open_logged_store(tmp_path / "root", "plain", 0, backend="sqlite") as logged:
        before = list(logged.store.range())
    place = tmp_path / "root" / "plain" / "0"
    shutil.rmtree(place / "engine")
    (place / "engine.json").unlink()

    with ss.open_logged_store(tmp_path / "root", "plain", 0, backend="memory") as logged:
        assert list(logged.store.range()) == before
        changelog = ss.TopicPartition("fixture-plain-changelog", 0)
        assert logged.position[changelog] == 88


@pytest.mark.spec("MIG-14")
def test_a_timestamped_store(application: Path, tmp_path: Path, expected: dict[str, Rows]) -> None:
    """Each value has its timestamp."""
    import_one(application, tmp_path / "root", "timestamped")
    with ss.open_logged_store(tmp_path / "root", "timestamped", 0, backend="sqlite") as logged:
        rows = [(key, found.value, found.timestamp_ms) for key, found in logged.store.range()]

    assert rows == [(row["key"], row["value"], row["timestamp"]) for row in expected["timestamped"]]


@pytest.mark.spec("MIG-14")
def test_a_versioned_store(application: Path, tmp_path: Path, expected: dict[str, Rows]) -> None:
    """Reads as of each time within the history answer as those of Kafka Streams."""
    import_one(application, tmp_path / "root", "versioned", retention_ms=RETENTION_MS)
    with ss.open_logged_store(tmp_path / "root", "versioned", 0, backend="sqlite") as logged:
        horizon = logged.store.stream_time_ms - RETENTION_MS
        asked = [row for row in expected["versioned"] if row["as_of"] > horizon]
        found = [logged.store.get(row["key"], as_of_ms=row["as_of"]) for row in asked]

    assert [record and record.value for record in found] == [row["value"] for row in asked]
    assert len(asked) > 40


@pytest.mark.spec("MIG-14")
@pytest.mark.parametrize("store", ["win.dow", "window-timestamped", "window-duplicates"])
def test_a_window_store(
    application: Path, tmp_path: Path, expected: dict[str, Rows], store: str
) -> None:
    """The windows that have not expired; duplicates are kept where they were."""
    plan = import_one(
        application, tmp_path / "root", store, retention_ms=RETENTION_MS, window_size_ms=SIZE_MS
    )
    with ss.open_logged_store(tmp_path / "root", store, 0, backend="sqlite") as logged:
        rows = [(record.key, record.start_ms, record.value) for record in logged.store.fetch_all()]

    assert sorted(rows) == sorted(
        (row["key"], row["window_start"], row["value"]) for row in expected[store]
    )
    described = plan.specification.describe()
    assert described["retain_duplicates"] is (store == "window-duplicates")


@pytest.mark.spec("MIG-14")
def test_a_session_store(application: Path, tmp_path: Path, expected: dict[str, Rows]) -> None:
    """All sessions that Kafka Streams shows, and no end is moved."""
    import_one(application, tmp_path / "root", "session", retention_ms=RETENTION_MS)
    with ss.open_logged_store(tmp_path / "root", "session", 0, backend="sqlite") as logged:
        rows = {
            (record.key, record.start_ms, record.end_ms, record.value)
            for record in logged.store.find_all_sessions()
        }

    # Kafka Streams had seen a later end, of a deletion that left no row.
    assert rows >= {
        (row["key"], row["session_start"], row["session_end"], row["value"])
        for row in expected["session"]
    }
    assert len(rows) <= len(expected["session"]) + 1


@pytest.mark.spec("MIG-14")
def test_partitions_keep_their_numbers(partitioned: Path, tmp_path: Path) -> None:
    """And a row that was older than the timestamps of its store has none."""
    import_one(partitioned, tmp_path / "root", "table")
    found: dict[bytes, Any] = {}
    for partition in range(3):
        with ss.open_logged_store(
            tmp_path / "root", "table", partition, backend="sqlite"
        ) as logged:
            found |= dict(logged.store.range())
            changelog = ss.TopicPartition("app-table-changelog", partition)
            assert logged.position[changelog] == partition + 5

    assert len(found) == 60
    assert {(each.value, each.timestamp_ms) for each in found.values()} == {
        (b"old", None),
        (b"new", 7),
    }


@pytest.mark.spec("MIG-15")
def test_a_wrong_number_of_partitions_is_noticed(partitioned: Path, tmp_path: Path) -> None:
    """Keys would not be found. Nothing is left behind, so the right number can follow."""
    with pytest.raises(InvalidArgumentError, match="another number of partitions"):
        import_one(partitioned, tmp_path / "root", "table", partitions=4)

    assert not (tmp_path / "root").exists()
    import_one(partitioned, tmp_path / "root", "table", partitions=3)


@pytest.mark.spec("MIG-15")
def test_keys_of_another_partitioner_are_taken_on_request(
    partitioned: Path, tmp_path: Path
) -> None:
    """They stay in the partition in which they were."""
    import_one(partitioned, tmp_path / "root", "table", partitions=5, check_keys=False)

    assert ss.StateRoot.open(tmp_path / "root").store("table").partitions == 5


@pytest.mark.spec("MIG-14")
def test_what_other_machines_have_can_follow(partitioned: Path, tmp_path: Path) -> None:
    """Each has some of the partitions; together they are the store."""
    other = tmp_path / "other" / "app"
    other.mkdir(parents=True)
    (partitioned / "1_1").rename(other / "1_1")
    root = tmp_path / "root"
    import_one(partitioned, root, "table")
    import_one(other, root, "table", partitions=3)

    assert sorted(path.name for path in (root / "table").iterdir()) == ["0", "1", "2"]


@pytest.mark.spec("MIG-15")
def test_what_is_there_is_not_replaced(partitioned: Path, tmp_path: Path) -> None:
    """It is refused, or left as it is on request; the missing partition follows."""
    root = tmp_path / "root"
    import_one(partitioned, root, "table")
    shutil.rmtree(root / "table" / "1")
    with pytest.raises(StoreMismatchError, match="already"):
        import_one(partitioned, root, "table")
    with KafkaStateDirectory(partitioned) as source:
        done = import_kafka_state(
            source, root, [plan_import(source, "table")], backend="sqlite", skip_existing=True
        )

    assert [(each.partition, each.is_new) for each in done] == [(0, False), (1, True), (2, False)]


@pytest.mark.spec("MIG-14")
def test_a_partition_is_whole_or_not_there(partitioned: Path, tmp_path: Path) -> None:
    """An import that fails in the middle leaves complete partitions, and what died is cleared.

    Damage in what is read is found before anything is written.
    """

    def fail(done: Progress) -> None:
        if done.rows > rows[0]:
            raise StorageError("the disk is full")

    table = next((partitioned / "1_1" / "rocksdb" / "table").glob("*.sst"))
    whole = table.read_bytes()
    root = tmp_path / "root"
    with KafkaStateDirectory(partitioned) as source:
        plan = plan_import(source, "table")
        table.write_bytes(whole[:60] + bytes([whole[60] ^ 0xFF]) + whole[61:-60])
        with pytest.raises(StoreCorruptedError, match="1_1"):
            import_kafka_state(source, root, [plan], backend="sqlite")
        assert not root.exists()
        table.write_bytes(whole)
        rows = [sum(map(len, source.read("table", number))) for number in plan.present]
        assert all(rows)
        with pytest.raises(StorageError, match="is full"):
            import_kafka_state(source, root, [plan], backend="sqlite", progress=fail)
        assert [path.name for path in (root / "table").iterdir()] == ["0"]
        assert not (root / ".import" / "state").exists()

        import_kafka_state(source, root, [plan], backend="sqlite", skip_existing=True)
    assert sorted(path.name for path in (root / "table").iterdir()) == ["0", "1", "2"]
    assert not (root / ".import" / "state").exists()


@pytest.mark.spec("MIG-10", "MIG-15")
@pytest.mark.parametrize("where", [".", "state", "0_0/rocksdb"])
def test_a_state_root_in_the_state_directory_is_refused(older: Path, where: str) -> None:
    """In ``0_0/rocksdb`` the import put its partition into the database of the store's name."""
    before = sorted(older.rglob("*"))
    with pytest.raises(InvalidArgumentError, match="give a directory outside of it"):
        import_one(older, older / where, "timestamped")

    assert sorted(older.rglob("*")) == before


@pytest.mark.spec("MIG-20")
def test_values_that_the_serde_does_not_read_are_refused(older: Path, tmp_path: Path) -> None:
    """The import took them as they were, and the first scan said that a value is damaged."""
    with pytest.raises(SerializationError, match=r"the value of the key .* cannot be read back"):
        import_one(older, tmp_path / "root", "plain", value=ss.int64)

    assert not (tmp_path / "root").exists()


@pytest.mark.spec("MIG-15")
def test_two_imports_into_one_root_are_refused(older: Path, tmp_path: Path) -> None:
    """They would write aside in the same place."""
    lock = DirectoryLock.acquire(tmp_path / "root" / ".import")
    try:
        with pytest.raises(StoreLockedError):
            import_one(older, tmp_path / "root", "plain")
    finally:
        lock.release()


@pytest.mark.spec("MIG-15")
@pytest.mark.parametrize(
    ("store", "options", "problem"),
    [
        ("versioned", {}, "the retention of the versioned store"),
        ("win.dow", {"retention_ms": 1}, "the window size of the window store"),
        ("plain", {"retention_ms": 1}, "has no retention"),
        ("session", {"retention_ms": 1, "window_size_ms": 1}, "has no window size"),
        ("plain", {"kind": KafkaKind.SESSION}, "cannot be of the kind"),
        ("empty", {}, "do not tell its kind"),
        ("win.dow", {"retention_ms": 1, "window_size_ms": 2}, "retention_ms must be at least"),
        ("plain", {"partitions": 0}, "at least 1"),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    older: Path, store: str, options: dict[str, Any], problem: str
) -> None:
    """Before anything is written."""
    with (
        KafkaStateDirectory(older) as source,
        pytest.raises(InvalidArgumentError, match=problem),
    ):
        plan_import(source, store, **options)


def run(*arguments: object) -> tuple[int, str, str]:
    """Run the command; return its exit code and what it has printed."""
    result = invoke("import-kafka", *arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.spec("MIG-10")
def test_a_dry_run_says_what_is_there(application: Path) -> None:
    """Stores, kinds, rows, offsets, and which options an import would need."""
    code, out, _ = run(application, "--dry-run", "--json")
    found = {row["store"]: row for row in json.loads(out)["partitions"]}
    is_older = (application / "0_0" / ".checkpoint").exists()

    assert code == 0
    assert found["plain"] == {
        "store": "plain",
        "partition": 0,
        "kinds": ["key-value"],
        "rows": 5,
        "changelog": {"fixture-plain-changelog-0": 88},
        "position": {"input-0": 88},
        "closed_cleanly": None if is_older else True,
        "missing": [],
    }
    assert found["win.dow"]["missing"] == ["--retention", "--window-size"]
    assert found["empty"]["kinds"] == ["key-value", "versioned"]
    assert found["empty"]["rows"] is None


def test_a_dry_run_for_people_names_what_is_not_read(older: Path) -> None:
    """On standard error: it is no part of the table."""
    (older / "kafka-streams-process-metadata").touch()
    code, out, err = run(older, "--dry-run")

    assert code == 0
    assert "versioned\t0\tversioned\t59\tfixture-versioned-changelog-0: 88" in out
    assert "the process id" in err


def test_a_store_that_was_not_closed_is_named(tmp_path: Path, write_database: Any) -> None:
    """It is imported, with what has to be known of it."""
    offsets = {b"status": (1).to_bytes(8, "big"), b"app-kv-changelog-0": (6).to_bytes(8, "big")}
    families = {"default": {b"k": b"v"}, "offsets": offsets}
    write_database(tmp_path / "app" / "0_0" / "rocksdb" / "kv", families)
    arguments = (tmp_path / "app", "--to", tmp_path / "root", "--backend", "sqlite")
    code, out, err = run(*arguments)

    assert code == 0
    assert "kv\t0\t1\t0\tno\tyes" in out
    assert "kv, partition 0: not closed cleanly" in err
    with ss.open_logged_store(tmp_path / "root", "kv", 0, backend="sqlite") as logged:
        assert logged.position[ss.TopicPartition("app-kv-changelog", 0)] == 6


def test_everything_is_imported_by_one_command(older: Path, tmp_path: Path) -> None:
    """Each store takes the options that it needs; an empty one of no known kind is named."""
    root = tmp_path / "root"
    options = ("--to", root, "--retention", "10m", "--window-size", "60s", "--backend", "sqlite")
    code, out, _ = run(older, *options, "--json")
    done = json.loads(out)

    assert code == 0
    assert {row["store"]: (row["kind"], row["rows"]) for row in done["partitions"]} == {
        "emit-on-close": ("time-first-window", 6),
        "emit-on-close-session": ("time-first-session", 4),
        "plain": ("key-value", 5),
        "session": ("session", 50),
        "timestamped": ("timestamped-key-value", 5),
        "versioned": ("versioned", 59),
        "win.dow": ("window", 48),
        "window-duplicates": ("window", 49),
        "window-timestamped": ("timestamped-window", 48),
    }
    assert done["left"] == ["empty"]
    assert run(older, *options)[0] == 1
    assert run(older, *options, "--skip-existing")[0] == 0


def test_serdes_read_what_kafka_wrote(older: Path, tmp_path: Path) -> None:
    """The bytes stay; keys and counts of the DSL are text and int64."""
    root = tmp_path / "root"
    code, *_ = run(
        *(older, "--to", root, "--store", "emit-on-close", "--retention", "2m"),
        *("--window-size", "1m", "--key-serde", "utf8", "--value-serde", "int64"),
        *("--backend", "sqlite"),
    )
    with ss.open_logged_store(root, "emit-on-close", 0, backend="sqlite") as logged:
        rows = [(record.key, record.value) for record in logged.store.fetch_all()]

    assert code == 0
    assert {key for key, _ in rows} == {"even", "odd-key"}
    assert {type(count) for _, count in rows} == {int}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "--to ROOT is missing"),
        (["--to", "root"], "--retention, --window-size"),
        (["--to", "root", "--kind", "window"], "--store NAME"),
        (
            ["--to", "root", "--store", "plain", "--retention", "soon"],
            "--retention is millis",
        ),
        (["--to", "root", "--store", "plain", "--retention", "1d"], "has no retention"),
        (["--to", "root", "--kind", "cache"], "Invalid value for '--kind'"),
    ],
)
def test_a_call_that_cannot_be_one(
    older: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], problem: str
) -> None:
    """Exit code 2, one sentence that says what to do, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    code, _, err = run(older, *arguments)

    assert code == 2
    assert problem in err
    assert not (tmp_path / "root").exists()


def test_a_directory_without_state_is_a_failure(tmp_path: Path) -> None:
    """Exit code 1."""
    code, _, err = run(tmp_path, "--dry-run")

    assert code == 1
    assert "there is no state of Kafka Streams" in err
