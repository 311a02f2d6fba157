"""A task notes how far its stores were, so that an older copy of one is told from the newest."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from forked_programs import run

import statestores as ss
from statestores.errors import StorageError, StoreCorruptedError, UnsupportedFormatError
from statestores.tasks import TaskId, open_task
from statestores.tasks.commits import committed_ends
from statestores.tasks.commits.committed_ends import CommittedEnds

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")

# Commits both stores twice, and dies when the second commit has its record.
_WRITER = """
import os, signal, sys
import statestores as ss
from statestores import failpoints
from statestores.tasks import open_task

with open_task(sys.argv[1], "0_0", ("counts", "rates"), backend="sqlite") as task:
    failpoints.arm("task.recorded", lambda: os.kill(os.getpid(), signal.SIGKILL), at=2)
    for number in (1, 2):
        task.store("counts").put("number", number)
        task.store("rates").put("number", number, timestamp_ms=number)
        task.commit({ss.TopicPartition("words", 0): number})
"""


def _committed(root: ss.StateRoot, number: int, **how: Any) -> None:
    with open_task(root, "0_0", NAMES, backend="sqlite", **how) as task:
        task.store("counts").put("number", number)
        task.store("rates").put("number", number, timestamp_ms=number)
        task.commit({INPUT: number})


@pytest.mark.spec("TSK-16")
@pytest.mark.parametrize("older", ["rates", "counts"])
def test_a_store_put_back_from_an_older_copy_is_refused(root: ss.StateRoot, older: str) -> None:
    """One store's directory came from the backup of the day before: it went on a day behind."""
    _committed(root, 1)
    place, copy = root.partition(older, 0).path, root.path / "copy"
    shutil.copytree(place, copy)
    _committed(root, 2)
    place.rename(root.path / "newest")
    shutil.copytree(copy, place)

    with pytest.raises(StoreCorruptedError, match=f"'{older}' up to offset 1 .* ends before 1, in"):
        open_task(root, "0_0", NAMES)
    shutil.rmtree(place)
    (root.path / "newest").rename(place)
    _committed(root, 3)


@pytest.mark.spec("TSK-16", "TSK-3")
def test_a_recorded_commit_is_kept_until_the_newest_copy_is_back(root: ss.StateRoot) -> None:
    """All stores were older copies, which looks as after a power failure.

    The record was forgotten for that, and the commit lost when the newest copies were put back.
    """
    _committed(root, 0)
    places = [root.partition(name, 0).path for name in NAMES]
    for place in places:
        shutil.copytree(place, root.path / "older" / place.parent.name)
    killed = run(_WRITER, root.path)
    assert killed.returncode == -signal.SIGKILL
    for place in places:
        place.rename(root.path / f"newest-{place.parent.name}")
        shutil.copytree(root.path / "older" / place.parent.name, place)

    with pytest.raises(StoreCorruptedError, match="an older copy has been put back"):
        open_task(root, "0_0", NAMES)
    for place in places:
        shutil.rmtree(place)
        (root.path / f"newest-{place.parent.name}").rename(place)
    with open_task(root, "0_0", NAMES) as task:
        assert task.position == {INPUT: 2}
        assert task.store("rates").get("number").value == task.store("counts").get("number") == 2


@pytest.mark.spec("TSK-16")
def test_a_note_that_is_torn_or_lost_refuses_nothing(root: ss.StateRoot) -> None:
    """A power failure may leave any part of it; one of two pages, or neither."""
    for number in range(3):
        _committed(root, number)
    note = root.path / "@tasks" / "0_0.ends"
    whole = note.read_bytes()
    half = len(whole) // 2
    for torn in (b"", whole[:half], b"x" * half + whole[half:], whole[:9] + b"x" + whole[10:]):
        note.write_bytes(torn)
        with open_task(root, "0_0", NAMES) as task:
            assert task.position == {INPUT: 2}
    note.unlink()
    _committed(root, 3)

    assert b'"ends":{"counts":4,"rates":4}' in note.read_bytes()


@pytest.mark.spec("TSK-16")
@pytest.mark.parametrize("is_same", [True, False])
def test_what_need_not_outlive_a_power_failure_is_noted_until_then(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch, *, is_same: bool
) -> None:
    """A commit that waits for no disk may be gone after one; that is no older copy."""
    boot = root.path / "boot"
    boot.write_text("the first start\n")
    monkeypatch.setattr(committed_ends, "_BOOT_FILE", boot)
    how: dict[str, Any] = {"durability": ss.Durability.PROCESS_CRASH}
    _committed(root, 1, **how)
    copies = {root.partition(name, 0).path: root.path / f"older-{name}" for name in NAMES}
    for place, copy in copies.items():
        shutil.copytree(place, copy)
    _committed(root, 2, **how)
    for place, copy in copies.items():
        shutil.rmtree(place)
        shutil.copytree(copy, place)
    if is_same:
        with pytest.raises(StoreCorruptedError, match="an older copy has been put back"):
            open_task(root, "0_0", NAMES)
        return
    boot.write_text("the second start\n")
    with open_task(root, "0_0", NAMES) as task:
        assert task.position == {INPUT: 1}
    _committed(root, 2)

    assert b'"boot":null' in (root.path / "@tasks" / "0_0.ends").read_bytes()


@pytest.mark.spec("TSK-16")
@pytest.mark.usefixtures("no_descriptor_leaks")
def test_two_pages_are_written_in_turn(root: ss.StateRoot) -> None:
    """So that the one before is there when the newest is torn; and the file does not grow.

    The first commit of an opening leaves the last one of the opening before.
    """
    found = []
    note = root.path / "@tasks" / "0_0.ends"
    with open_task(root, "0_0", NAMES, backend="memory") as task:
        for number in range(6):
            task.store("counts").put("number", number)
            task.commit({INPUT: number})
            data = note.read_bytes()
            pages = (data[: len(data) // 2], data[len(data) // 2 :])
            found.append([b'"counts":%d}' % (number + 1) in page for page in pages])

            assert len(data) == 2 * 2_048
            assert number == 0 or any(b'"counts":%d}' % number in page for page in pages)

    assert found in ([[True, False], [False, True]] * 3, [[False, True], [True, False]] * 3)
    with open_task(root, "0_0", NAMES, backend="memory") as task:
        task.store("counts").put("number", 6)
        task.commit({INPUT: 6})
    data = note.read_bytes()
    assert [b'"counts":%d}' % end in data for end in (5, 6, 7)] == [False, True, True]
    mask = os.umask(0)
    os.umask(mask)
    assert note.stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.spec("TSK-16")
def test_where_nobody_says_which_start_it_is_each_opening_may_be_another(
    root: ss.StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside Linux there is no such file: commits go on, and what need not last is not held."""
    monkeypatch.setattr(committed_ends, "_BOOT_FILE", root.path / "none")
    _committed(root, 1, durability=ss.Durability.PROCESS_CRASH)
    note = (root.path / "@tasks" / "0_0.ends").read_bytes()
    ends = CommittedEnds(root.path / "@tasks" / "0_0", ss.Durability.PROCESS_CRASH)

    assert b'"ends":{"counts":1,"rates":1}' in note
    assert b'"boot":"unknown"' in note
    ends.check(TaskId(0, 0), {"counts": 0, "rates": 0})
    with open_task(root, "0_0", NAMES) as task:
        assert task.position == {INPUT: 1}


@pytest.mark.spec("TSK-16")
def test_a_directory_of_commits_that_has_gone_is_told(root: ss.StateRoot) -> None:
    """With it a record may have gone, of a commit that some stores have and others have not."""
    _committed(root, 1)
    shutil.rmtree(root.path / "@tasks" / "0_0")

    with pytest.raises(StoreCorruptedError, match="written 'counts', 'rates', and its directory"):
        open_task(root, "0_0", NAMES)


@pytest.mark.spec("TSK-16")
@pytest.mark.usefixtures("no_descriptor_leaks")
def test_a_note_grows_with_the_stores(root: ss.StateRoot) -> None:
    """More than a page takes is written in larger pages, and read again."""
    names = [f"{number}-{'x' * 200}" for number in range(12)]
    for name in names:
        root.add_store(ss.KeyValue(name, key=ss.utf8, value=ss.int64), partitions=1)
    for number in range(3):
        with open_task(root, "0_0", names) as task:
            for name in names[: 4 * number + 4]:
                task.store(name).put("a", number)
            task.commit({INPUT: number})
    shutil.rmtree(root.partition(names[-1], 0).path)

    with pytest.raises(StoreCorruptedError, match="of which there is nothing any more"):
        open_task(root, "0_0", names)
    ends = CommittedEnds(root.path / "@tasks" / "0_0", ss.Durability.POWER_LOSS)
    with pytest.raises(StoreCorruptedError, match="ends before 0"):
        ends.check(TaskId(0, 0), {names[-1]: 0})


def _page(**changed: object) -> bytes:
    """Return a page that is whole, and says *changed*."""
    content = {"format": 1, "sequence": 1, "ends": {"counts": 1}, "outputs": {}, "boot": None}
    text = json.dumps(content | changed).encode()
    return b"%08x %b\n" % (google_crc32c.value(text), text)


@pytest.mark.spec("TSK-16")
@pytest.mark.usefixtures("no_descriptor_leaks")
def test_a_note_that_outgrows_its_page_gets_a_larger_one(tmp_path: Path) -> None:
    """In a file that takes the place of the smaller one; what came before is in it."""
    ends = CommittedEnds(tmp_path / "0_0", ss.Durability.POWER_LOSS)
    long = "b" * 3_000
    for outputs in ({"a": 1}, {long: 2}, {"a": 3}):
        ends.note([], outputs)
    ends.close()
    [file] = tmp_path.iterdir()

    assert CommittedEnds(tmp_path / "0_0", ss.Durability.POWER_LOSS).outputs == {"a": 3, long: 2}
    assert file.stat().st_size == 2 * 4_096


@pytest.mark.spec("TSK-16")
def test_a_note_of_a_later_release_is_not_guessed_at(tmp_path: Path) -> None:
    """A page that is whole, and of another format: it may mean something else."""
    (tmp_path / "0_0.ends").write_bytes(_page(format=2))

    with pytest.raises(UnsupportedFormatError, match="has format 2, and this release knows 1"):
        CommittedEnds(tmp_path / "0_0", ss.Durability.POWER_LOSS)


@pytest.mark.spec("TSK-16")
@pytest.mark.parametrize("newest", [0, 1])
def test_the_newest_page_counts_wherever_it_is(tmp_path: Path, newest: int) -> None:
    """Of two whole pages the one that was written later; the other one says less."""
    pages = [_page(sequence=7, ends={"counts": 3}), _page(sequence=8, ends={"counts": 5})]
    both = pages if newest else pages[::-1]
    (tmp_path / "0_0.ends").write_bytes(b"".join(page.ljust(2_048, b"\0") for page in both))
    ends = CommittedEnds(tmp_path / "0_0", ss.Durability.POWER_LOSS)

    ends.check(TaskId(0, 0), {"counts": 5, "rates": 0})
    with pytest.raises(StoreCorruptedError, match=r"'counts' up to offset 4 .* ends before 4"):
        ends.check(TaskId(0, 0), {"counts": 4})


@pytest.mark.spec("TSK-16")
def test_a_note_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """It is not taken for one that is gone: that would refuse nothing."""
    (tmp_path / "0_0.ends").mkdir()

    with pytest.raises(StorageError, match=r"cannot read '.*0_0\.ends'"):
        CommittedEnds(tmp_path / "0_0", ss.Durability.POWER_LOSS)
