"""The record of a task's commit is what was written, or damage, and never less than the commit."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from directory_records import directory_of

import statestores as ss
from statestores import failpoints
from statestores.changelog import ChangelogReader
from statestores.errors import (
    CommitConflictError,
    StoreCorruptedError,
    UnsupportedFormatError,
)
from statestores.tasks import open_task
from statestores.tasks.commits.directory_record import RECORD_FILE, _checksum
from statestores.tasks.commits.record_file import read_file, write_file

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")

_SOAK = os.environ.get("STATESTORES_SOAK") == "1"
_FLIPS = None if _SOAK else 12
"""Bits that are flipped in a file; ``None``: one in every byte."""
_CUTS = 64 if _SOAK else 6
_SEED = 13


class Died(BaseException):
    """The process ends here, as far as a task can tell."""


def _die() -> None:
    raise Died


@pytest.fixture
def armed() -> Iterator[Callable[[str, Callable[[], object]], None]]:
    """Arm failpoints, and disarm them at the end."""
    yield failpoints.arm
    failpoints.disarm()


@pytest.fixture
def record(root: ss.StateRoot, armed: Callable[[str, Callable[[], object]], None]) -> Path:
    """Leave behind a task that died right after its second commit was recorded."""
    with open_task(root, "0_0", NAMES, backend="sqlite") as task:
        for number in (1, 2):
            task.store("counts").put("number", number)
            task.store("rates").put("number", number, timestamp_ms=number)
            if number == 2:
                armed("task.recorded", _die)
            try:
                task.commit({INPUT: number})
            except Died:
                failpoints.disarm()
    return root.path / "@tasks" / "0_0" / "commit"


def _found(root: ss.StateRoot) -> tuple[object, object, object]:
    with open_task(root, "0_0", NAMES) as task:
        number = task.store("rates").get("number")
        return task.store("counts").get("number"), number and number.value, task.position[INPUT]


@pytest.mark.spec("TSK-10", "TSK-3")
def test_a_damaged_record_is_refused_and_never_carried_out_in_part(
    root: ss.StateRoot, record: Path
) -> None:
    """A record is cut, flipped, zeroed and made longer; what it says contradicts its parts.

    A user's disk flipped one bit in the record of a commit of two stores. The task opened without
    a word, with the one store's part of the commit and without the other's: the damaged frame was
    taken for a torn tail, which a crash may leave in a changelog. It cannot leave one in a record,
    which is on disk before it has its name. Now it is an error with the path, nothing is appended,
    and the record stays for whoever puts it right.
    """
    whole = record.read_bytes()
    cases = [*_damaged(whole, random.Random(_SEED)), *_contradictory(record)]
    ends = _ends(root)
    for case, data in cases:
        record.write_bytes(data)
        with pytest.raises((StoreCorruptedError, UnsupportedFormatError)) as caught:
            open_task(root, "0_0", NAMES).close()
        assert str(record) in str(caught.value), case
        assert _ends(root) == ends, case
    record.unlink()
    os.mkfifo(record)
    with pytest.raises(StoreCorruptedError, match="is no file"):
        open_task(root, "0_0", NAMES)
    record.unlink()
    record.write_bytes(whole)

    assert len(cases) > 2 * _CUTS
    assert _found(root) == (2, 2, 2)


def _ends(root: ss.StateRoot) -> list[int]:
    ends = []
    for name in NAMES:
        with ChangelogReader.open(root.partition(name, 0).changelog) as log:
            ends.append(log.end_offset)
    return ends


def _damaged(data: bytes, dice: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield what a disk may make of *data*, each with what it is."""
    places = range(len(data)) if _FLIPS is None else dice.sample(range(len(data)), _FLIPS)
    for at in places:
        flipped = data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
        yield f"flipped at {at}", flipped
    # Not by its last byte alone: of a file of JSON, that is a newline, which says nothing.
    for length in (0, 1, *(dice.randrange(2, len(data) - 1) for _ in range(_CUTS))):
        yield f"cut to {length}", data[:length]
        yield f"zeroed from {length}", data[:length] + bytes(len(data) - length)
    yield "twice", data + data
    yield "another checksum", data[:8] + bytes([data[8] ^ 1]) + data[9:]


def _contradictory(record: Path) -> Iterator[tuple[str, bytes]]:
    """Yield records that are intact, and say what cannot be."""
    file = read_file(record)
    assert file is not None
    content, stores = file.content, file.content["stores"]
    middle = file.parts_at + stores["counts"]["bytes"]
    counts, rates = file.data[file.parts_at : middle], file.data[middle:]
    assert list(stores) == list(NAMES)
    tried: list[tuple[str, dict[str, Any], list[bytes]]] = [
        ("a later format", {**content, "format": 5}, [counts, rates]),
        ("no format", {"stores": stores}, [counts, rates]),
        ("no stores", {**content, "stores": {}}, []),
        ("a store is missing", content, [counts]),
        ("a part too many", content, [counts, rates, counts]),
        ("stores exchanged", content, [rates, counts]),
        (
            "an output that is not there",
            {**content, "outputs": {"a": {"bytes": 8}}},
            [counts, rates],
        ),
    ]
    for name, change in (
        ("another store", {"names": stores["counts"], "rates": stores["rates"]}),
        ("another offset", {**stores, "rates": {**stores["rates"], "base_offset": 7}}),
        ("no length", {**stores, "rates": {"base_offset": 1}}),
        ("a length below zero", {**stores, "rates": {**stores["rates"], "bytes": -1}}),
    ):
        tried.append((name, {**content, "stores": change}, [counts, rates]))
    place = record.with_name("tried")
    for name, said, parts in tried:
        write_file(place, said, parts)
        yield name, place.read_bytes()
    place.unlink()


@pytest.mark.spec("TSK-10", "TSK-3")
def test_a_damaged_directory_of_an_earlier_release_is_refused(
    root: ss.StateRoot, record: Path
) -> None:
    """Every file is cut, flipped, zeroed, made longer, removed and added to; whole, it is done."""
    dice = random.Random(_SEED)
    whole = record.with_name("whole")
    directory_of(record, root, whole)
    record.unlink()
    ends = _ends(root)
    for case, damage in _damages_of_files(whole, dice):
        shutil.copytree(whole, record)
        damage(record)
        with pytest.raises((StoreCorruptedError, UnsupportedFormatError)) as caught:
            open_task(root, "0_0", NAMES).close()
        assert str(record) in str(caught.value), case
        assert _ends(root) == ends, case
        shutil.rmtree(record)
    whole.rename(record)

    assert _found(root) == (2, 2, 2)
    assert not record.exists()


def _damages_of_files(
    whole: Path, dice: random.Random
) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Yield ways to damage a copy of the directory *whole*, each with what it is."""
    files = sorted(file.relative_to(whole) for file in whole.rglob("*") if file.is_file())
    for file in files:
        for case, data in _damaged((whole / file).read_bytes(), dice):
            yield f"{file} {case}", _written(file, data)
        yield f"{file} removed", _removed(file)
    for name in NAMES:
        yield f"{name} missing", _removed(Path(name))
        yield f"{name} is called other", _renamed(name, "other")
    yield "another store", lambda copy: shutil.copytree(copy / "rates", copy / "names")
    yield "a stray file", lambda copy: (copy / "rates" / "stray").touch()
    yield "stores exchanged", _exchange
    yield "another checksum", _write_another_checksum
    yield "no stores", _name_no_stores


def _write_another_checksum(copy: Path) -> None:
    """Damage nothing but what says that the rest is whole."""
    said = json.loads((copy / RECORD_FILE).read_text())
    (copy / RECORD_FILE).write_text(json.dumps({**said, "crc32c": said["crc32c"] ^ 1}))


def _name_no_stores(copy: Path) -> None:
    """Say of a commit that it is one of no store, whole as it is."""
    said = json.loads((copy / RECORD_FILE).read_text())
    said["stores"] = {}
    del said["crc32c"]
    (copy / RECORD_FILE).write_text(json.dumps({**said, "crc32c": _checksum(said)}))
    for name in NAMES:
        shutil.rmtree(copy / name)


def _written(file: Path, data: bytes) -> Callable[[Path], object]:
    return lambda copy: (copy / file).write_bytes(data)


def _removed(path: Path) -> Callable[[Path], object]:
    def remove(copy: Path) -> None:
        if (copy / path).is_dir():
            shutil.rmtree(copy / path)
        else:
            (copy / path).unlink()

    return remove


def _renamed(name: str, other: str) -> Callable[[Path], object]:
    return lambda copy: (copy / name).rename(copy / other)


def _exchange(copy: Path) -> None:
    (copy / "rates").rename(copy / "other")
    (copy / "counts").rename(copy / "rates")
    (copy / "other").rename(copy / "counts")


@pytest.mark.spec("TSK-10")
def test_a_record_of_the_first_format_is_finished_and_its_damage_noticed(
    root: ss.StateRoot, record: Path
) -> None:
    """It has no checksums, and frames from offset 0."""
    first = record.with_name("first")
    directory_of(record, root, first, first_format=True)
    record.unlink()
    first.rename(record)
    [segment] = (record / "rates").glob("*.log")
    whole = segment.read_bytes()
    data = bytearray(whole)
    data[-20] ^= 4
    segment.write_bytes(data)

    with pytest.raises(StoreCorruptedError, match="are no frame"):
        open_task(root, "0_0", NAMES)
    segment.write_bytes(whole)
    assert _found(root) == (2, 2, 2)


@pytest.mark.spec("TSK-10")
def test_a_record_of_a_later_format_is_left_alone(root: ss.StateRoot, record: Path) -> None:
    """An older release does not guess."""
    file = read_file(record)
    assert file is not None
    write_file(record, {**file.content, "format": 5}, [file.data[file.parts_at :]])

    with pytest.raises(UnsupportedFormatError, match="format 5"):
        open_task(root, "0_0", NAMES)
    assert record.is_file()


@pytest.mark.spec("TSK-10")
@pytest.mark.parametrize("durability", list(ss.Durability))
def test_a_record_is_on_disk_before_it_has_its_name(
    root: ss.StateRoot,
    armed: Callable[[str, Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
    durability: ss.Durability,
) -> None:
    """Also when the commit need not survive a power failure: half a record would look damaged."""
    happened: list[str] = []
    wait_for_disk = os.fdatasync

    def noted(descriptor: int) -> None:
        happened.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        wait_for_disk(descriptor)

    with open_task(root, "0_0", NAMES, backend="memory", durability=durability) as task:
        monkeypatch.setattr(os, "fdatasync", noted)
        armed("task.recording", lambda: happened.append("recording"))
        armed("task.recorded", lambda: happened.append("recorded"))
        task.store("counts").put("number", 1)
        task.store("rates").put("number", 1, timestamp_ms=1)
        task.commit()

    assert happened[:3] == ["commit.tmp", "recording", "recorded"]


@pytest.mark.spec("TSK-3")
def test_a_recorded_commit_cannot_be_rolled_back(
    root: ss.StateRoot, armed: Callable[[str, Callable[[], object]], None]
) -> None:
    """A user's commit was interrupted after its record had its name, and was rolled back.

    The stores showed the content before it, and when the task was opened again the commit was
    there: what had been processed again meanwhile was in there twice. A rollback is refused, as a
    commit is.
    """
    with open_task(root, "0_0", NAMES, backend="memory") as task:
        task.store("counts").put("number", 1)
        task.store("rates").put("number", 1, timestamp_ms=1)
        armed("task.recorded", _die)
        with pytest.raises(Died):
            task.commit({INPUT: 1})
        failpoints.disarm()
        with pytest.raises(CommitConflictError, match="open it again"):
            task.rollback()
        with pytest.raises(CommitConflictError, match="open it again"):
            task.commit()

    assert _found(root) == (1, 1, 1)


@pytest.mark.spec("TSK-3")
def test_a_commit_that_was_not_recorded_can_be_rolled_back(
    root: ss.StateRoot, armed: Callable[[str, Callable[[], object]], None]
) -> None:
    """Without its name a record is none, and the task goes on."""
    with open_task(root, "0_0", NAMES, backend="memory") as task:
        task.store("counts").put("number", 1)
        task.store("rates").put("number", 1, timestamp_ms=1)
        armed("task.recording", _die)
        with pytest.raises(Died):
            task.commit({INPUT: 1})
        failpoints.disarm()
        task.rollback()
        task.store("counts").put("number", 2)
        task.store("rates").put("number", 2, timestamp_ms=2)
        task.commit({INPUT: 2})

    assert _found(root) == (2, 2, 2)
