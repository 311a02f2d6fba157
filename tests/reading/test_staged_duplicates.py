"""A staged write into a store that retains duplicates numbers its rows after those it has."""

from pathlib import Path

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow.encoded_changes import changes_from_encoded
from statestores.changelog import FileChangelog, compact
from statestores.errors import InvalidArgumentError, StorageError
from statestores.reading.partition_reader import PartitionReader
from statestores.staging import committed_write
from statestores.staging.staged_write import StagedRows, publish, stage
from statestores.staging.unfinished_write import finish_staged_writes

SPECIFICATION = ss.Window("clicks", retention_ms=1_000, window_size_ms=10, retain_duplicates=True)
ROWS = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("window_start", pa.int64())])

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with the store, which its owner has given three values and a snapshot."""
    created = ss.StateRoot.create(tmp_path / "state")
    created.add_store(SPECIFICATION, partitions=1)
    with ss.open_logged_store(created, "clicks", 0, backend="sqlite") as logged:
        for value in (b"0", b"1", b"2"):
            logged.store.put(b"k", value, 100)
        logged.commit()
        logged.snapshot()
    return created


def staged(root: ss.StateRoot, write_id: str, *values: bytes, start_ms: int = 100) -> StagedRows:
    """Stage *values* of one window."""
    rows = [{"key": b"k", "value": value, "window_start": start_ms} for value in values]
    batch = changes_from_encoded(pa.RecordBatch.from_pylist(rows, ROWS), SPECIFICATION)
    return stage(root.path, SPECIFICATION, 1, write_id, "t0", [batch])


def shown(root: ss.StateRoot) -> list[tuple[bytes, int]]:
    """Return the values and sequences that a reader without the lock sees."""
    reader = PartitionReader(root.partition("clicks", 0), SPECIFICATION)
    return [(row["value"], row["sequence"]) for batch in reader.rows() for row in batch.to_pylist()]


def numbered(*values: bytes) -> list[tuple[bytes, int]]:
    return [(value, number) for number, value in enumerate(values)]


@pytest.mark.spec("WIN-21")
def test_a_write_adds_to_the_window(root: ss.StateRoot) -> None:
    """After those of the snapshot, of the log, and of the write before; equal values are two."""
    publish(root, "clicks", "w1", [staged(root, "w1", b"3", b"2")])
    publish(root, "clicks", "w2", [staged(root, "w2", b"5")])

    assert shown(root) == numbered(b"0", b"1", b"2", b"3", b"2", b"5")
    with ss.open_logged_store(root, "clicks", 0, backend="sqlite") as logged:
        found = [record.value for record in logged.store.fetch_range(b"k")]
        assert found == [b"0", b"1", b"2", b"3", b"2", b"5"]


@pytest.mark.spec("WIN-21")
def test_a_replacement_begins_at_zero(root: ss.StateRoot) -> None:
    """Nothing is left that its rows could be taken for."""
    publish(root, "clicks", "w1", [staged(root, "w1", b"a", b"b")], "overwrite")

    assert shown(root) == numbered(b"a", b"b")


@pytest.mark.spec("WIN-21")
def test_a_compacted_log_still_says_what_comes_next(root: ss.StateRoot) -> None:
    """What the compaction has dropped had expired, and with it its windows."""
    publish(root, "clicks", "w1", [staged(root, "w1", b"late", start_ms=5_000)])
    with FileChangelog.open(root.partition("clicks", 0).changelog, "window") as log:
        log.seal()
        compact(log, retention_ms=1_000)
    publish(root, "clicks", "w2", [staged(root, "w2", b"later", start_ms=5_000)])

    assert shown(root) == [(b"late", 3), (b"later", 4)]


@pytest.mark.spec("WIN-21")
def test_an_interrupted_write_keeps_its_numbers(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers see them before it is finished, and whoever finishes it appends the same."""

    def fail(*_: object, **__: object) -> None:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(committed_write, "_roll_forward", fail)
        with pytest.raises(StorageError, match="is committed, and could not be finished"):
            publish(root, "clicks", "w1", [staged(root, "w1", b"3", b"4")])
    assert shown(root) == numbered(b"0", b"1", b"2", b"3", b"4")
    assert finish_staged_writes(root, "clicks")

    assert shown(root) == numbered(b"0", b"1", b"2", b"3", b"4")


def test_a_deletion_is_refused(root: ss.StateRoot) -> None:
    """A change that no store could replay never gets into the log."""
    rows = pa.RecordBatch.from_pylist([{"key": b"k", "value": None, "window_start": 100}], ROWS)

    with pytest.raises(InvalidArgumentError, match="retains duplicates, of which none can be"):
        changes_from_encoded(rows, SPECIFICATION)
