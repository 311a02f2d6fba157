"""A snapshot at an offset where one stands: which of the two it is, and what is said of it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.arrow import Snapshot, read_snapshot, write_snapshot
from statestores.arrow.row_batches import BatchParts
from statestores.arrow.schemas import KEY_VALUE_ROWS
from statestores.arrow.snapshots.committed_parts import CommittedParts, committed_parts
from statestores.arrow.snapshots.directory import list_snapshots
from statestores.arrow.snapshots.snapshot import committed_content
from statestores.failpoints import arm, disarm
from statestores.serdes.rows import row
from statestores.spi import KeyValueStore

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

BytesStore = KeyValueStore[bytes, bytes]
LOG = ss.TopicPartition("counts-changelog", 0)


@pytest.mark.spec("SNP-3")
def test_what_is_said_is_said_of_the_snapshot_that_stands(
    counts: BytesStore, tmp_path: Path
) -> None:
    """Which has another size where it was cut in another way."""
    first = write_snapshot(counts, tmp_path)
    second = write_snapshot(counts, tmp_path, batch_rows=100)
    elsewhere = write_snapshot(counts, tmp_path / "elsewhere", batch_rows=100)

    assert (second.written, second.rows, second.bytes) == (False, first.rows, first.bytes)
    assert elsewhere.bytes != first.bytes


@pytest.mark.spec("SNP-3", "SNP-5")
def test_a_snapshot_whose_rows_are_damaged_is_replaced(counts: BytesStore, tmp_path: Path) -> None:
    """Though it has all of its files, in their sizes: what it holds is not asked before."""
    path = write_snapshot(counts, tmp_path).path
    file = path / "data-0000.arrow"
    data = file.read_bytes()
    file.write_bytes(data[:900] + bytes((data[900] ^ 1,)) + data[901:])

    assert write_snapshot(counts, tmp_path).written
    read_snapshot(path).verify()


@pytest.mark.spec("SNP-3", "SRD-40")
def test_a_snapshot_with_the_schema_of_before_stays(tmp_path: Path) -> None:
    """It was of the store all along; one with a later schema is not taken for an earlier one's."""
    written = []
    for number, fields in enumerate(("a: int32", "a: int32, b: string")):
        specification = ss.KeyValue("counts", value=row(fields))
        with ss.open_store(tmp_path / str(number), specification, backend="memory") as store:
            store.commit({LOG: 3})
            written.append(write_snapshot(store, tmp_path / "s").written)

    assert written == [True, False]


def test_a_manifest_says_when_it_was_written(counts: BytesStore, tmp_path: Path) -> None:
    """In milliseconds; and a test may stop before the snapshot has its name."""
    before, seen = time.time_ns() // 1_000_000, []
    arm("snapshot.manifest-written", lambda: seen.append(list_snapshots(tmp_path)))
    try:
        snapshot: Snapshot = read_snapshot(write_snapshot(counts, tmp_path).path)
    finally:
        disarm()

    assert before <= snapshot.manifest.created_at_ms <= time.time_ns() // 1_000_000
    assert seen == [{}]


@pytest.mark.spec("SNP-16")
def test_content_is_read_as_it_is_asked_for(
    counts: BytesStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch is there, so that what is frozen is let go; the others come one by one."""
    read: list[int] = []

    def noted(parts: Iterator[BatchParts]) -> Iterator[BatchParts]:
        for number, each in enumerate(parts):
            read.append(number)
            yield each

    def parts(*arguments: Any) -> CommittedParts:
        found = committed_parts(*arguments)
        return found._replace(parts=noted(found.parts))

    monkeypatch.setattr("statestores.arrow.snapshots.snapshot.committed_parts", parts)
    with committed_content(counts, None, 100) as content:
        assert read == [0]
        rows = [each.join() for each in content.parts]

    assert read == list(range(11))
    assert [batch.num_rows for batch in rows] == [100] * 10 + [1]
    assert rows[0].schema == KEY_VALUE_ROWS
