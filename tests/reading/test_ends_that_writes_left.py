"""Where a staged write has left the changelogs is known when it is finished: older copies are told.

The note of the last write was emptied when the write was finished, so that the check which reads it
found nothing. A partition that was put back from an older copy was written to as if it were the
newest one, and what it lacked was gone without a word.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from staged_counts import (
    NEW,
    OLD,
    PARTITIONS,
    SPECIFICATION,
    content,
    kill_after_intent,
    root_with_old,
    staged,
)

import statestores as ss
from statestores.begun_partitions import BEGUN_DIRECTORY
from statestores.cli.operating.examination import Examination
from statestores.errors import StoreCorruptedError, StoreMismatchError
from statestores.reading.partition_reader import PartitionReader
from statestores.staging.staged_write import publish
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.staging.write_intent import StreamBatch, read_intent
from statestores.upkeep.compaction import Compaction
from statestores.verification import verify

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

ANEW = 1
"""The partition that is put back or begins anew."""


@pytest.fixture
def root(tmp_path: Path) -> ss.StateRoot:
    """A state root with a key-value store that holds `OLD`."""
    return root_with_old(tmp_path)


def _publish(root: ss.StateRoot, write_id: str, rows: Any, batch: int | None = None) -> None:
    stream = None if batch is None else StreamBatch(stream="q", number=batch)
    publish(root, "counts", write_id, [staged(root, write_id, "t0", rows)], batch=stream)


def _open(root: ss.StateRoot) -> None:
    specification = SPECIFICATION
    with ss.open_logged_store(root.path, specification, partition=ANEW, backend="sqlite") as opened:
        opened.store.put(b"own", b"1")
        opened.commit()


def _write(root: ss.StateRoot) -> None:
    _publish(root, "own", NEW.items())


def _compact(root: ss.StateRoot) -> None:
    Compaction(root=str(root.path), store="counts", partition=ANEW)()


@pytest.mark.spec("SPK-10", "LAY-38")
@pytest.mark.parametrize("write", [_open, _write, _compact])
def test_a_partition_that_is_an_older_copy_is_not_written_to(
    root: ss.StateRoot, tmp_path: Path, write: Callable[[ss.StateRoot], None]
) -> None:
    """Whoever it is that would write; with the newest copy all of them go on."""
    partition = root.partition("counts", ANEW).path
    shutil.copytree(partition, tmp_path / "older")
    _publish(root, "new", NEW.items())
    partition.rename(tmp_path / "newest")
    shutil.copytree(tmp_path / "older", partition)

    with pytest.raises(StoreCorruptedError, match=r"'counts' ends before .* in partition 1, and a"):
        write(root)
    shutil.rmtree(partition)
    (tmp_path / "newest").rename(partition)
    write(root)
    assert content(root).items() >= (OLD | NEW).items()


@pytest.mark.spec("LAY-38")
def test_what_a_write_leaves_alone_is_still_known(root: ss.StateRoot, tmp_path: Path) -> None:
    """Micro-batches come that have nothing for the partition, or nothing at all."""
    partition = root.partition("counts", ANEW).path
    shutil.copytree(partition, tmp_path / "older")
    _publish(root, "new", NEW.items())
    intent = read_intent(root.path / "counts")
    assert intent is not None
    ends = {number: write.end_offset for number, write in intent.partitions.items()}
    for number in range(2):
        _publish(root, f"q-{number}", [], batch=number)
    one = next(key for key in NEW if _partition_of(root, key) != ANEW)
    _publish(root, "one", [(one, b"1")])
    shutil.rmtree(partition)
    shutil.copytree(tmp_path / "older", partition)

    with pytest.raises(StoreCorruptedError, match=f"left it at {ends[ANEW]}"):
        _write(root)


@pytest.mark.spec("LAY-38")
def test_whoever_finishes_a_write_says_where_it_left_changelogs(
    root: ss.StateRoot, tmp_path: Path
) -> None:
    """Also when its publisher has died."""
    partition = root.partition("counts", ANEW).path
    shutil.copytree(partition, tmp_path / "older")
    kill_after_intent(root)
    assert finish_staged_writes(root, "counts")
    shutil.rmtree(partition)
    shutil.copytree(tmp_path / "older", partition)

    with pytest.raises(StoreCorruptedError, match="put back from an older copy"):
        _write(root)


@pytest.mark.spec("LAY-38")
@pytest.mark.parametrize("write", [_open, _write])
def test_a_partition_that_is_to_begin_anew_does(
    root: ss.StateRoot, write: Callable[[ss.StateRoot], None]
) -> None:
    """The file that says that it was there goes, and nothing else has to (LAY-35)."""
    shutil.rmtree(root.partition("counts", ANEW).path)
    with pytest.raises(StoreMismatchError, match="begin anew"):
        write(root)
    (root.path / "counts" / BEGUN_DIRECTORY / str(ANEW)).unlink()
    for _ in range(2):
        write(root)
    _publish(root, "new", NEW.items())

    left = {key: value for key, value in OLD.items() if _partition_of(root, key) != ANEW}
    assert content(root).items() >= (left | NEW).items()
    assert content(root).keys() <= left.keys() | NEW.keys() | {b"own"}


@pytest.mark.spec("LAY-39")
def test_an_older_copy_is_not_read_and_is_damaged(root: ss.StateRoot, tmp_path: Path) -> None:
    """Readers showed what it has as the newest state, and a check called it whole.

    So a report was wrong for as long as nobody wrote.
    """
    partition = root.partition("counts", ANEW)
    shutil.copytree(partition.path, tmp_path / "older")
    _publish(root, "new", NEW.items())
    query = PartitionReader(partition, SPECIFICATION).end_offset
    shutil.rmtree(partition.path)
    shutil.copytree(tmp_path / "older", partition.path)
    reader = PartitionReader(partition, SPECIFICATION)
    reads: list[Callable[[], object]] = [
        lambda: content(root),
        lambda: list(reader.changes(0, None)),
        lambda: list(reader.changes(query, None)),
        lambda: reader.end_offset,
    ]

    for read in reads:
        with pytest.raises(StoreCorruptedError, match=r"'counts' ends before .* put back the new"):
            read()
    (damage,) = [each for each in verify(root.path) if each.is_failure]
    assert (damage.check, damage.path) == ("changelog", partition.changelog)
    assert "put back from an older copy; put back the newest one" in damage.detail
    for with_rows in (True, False):
        (symptom,) = Examination(root=root.path, with_rows=with_rows).symptoms()
        assert (symptom.ailment.code, symptom.detail) == ("changelog-behind", damage.detail)


def _partition_of(root: ss.StateRoot, key: bytes) -> int:
    files = staged(root, "look", "t0", [(key, b"")]).files
    assert PARTITIONS > ANEW
    return files[0].partition
