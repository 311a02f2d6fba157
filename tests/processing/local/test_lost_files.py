"""What of a state and of topics has gone is told by name, and never taken for what is new."""

import json
import shutil
from pathlib import Path

import pytest

import statestores as ss
from statestores.errors import OffsetOutOfRangeError, StateStoreError, StoreCorruptedError
from statestores.processing import LocalTopics, Record, Topic, Topology, run
from statestores.processing.local import AtLeastOnce, JsonLines

LINES = Topic("lines", key=ss.utf8, value=ss.int64, partitions=2)
SUMS = Topic("sums-out", key=ss.utf8, value=ss.int64)


def _feed(directory: Path) -> None:
    with LocalTopics(directory / "topics") as topics:
        topics.topic(LINES).append(Record(key, 1, 1) for key in "abcdefgh")


def _run(directory: Path, *, counts_too: bool = False) -> None:
    shop = Topology("shop")
    lines = shop.stream(LINES)
    sums = ss.KeyValue("sums", key=ss.utf8, value=ss.int64)
    lines.group_by_key().sum("value", sums).to(SUMS)
    if counts_too:
        lines.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
    run(
        shop,
        state=directory / "state",
        topics=directory / "topics",
        until="idle",
        backend="sqlite",
    )


@pytest.mark.spec("PRC-96")
@pytest.mark.parametrize("gone", ["sums/1", "sums"])
def test_a_store_that_has_gone_is_not_begun_anew(tmp_path: Path, gone: str) -> None:
    """A partition of a store was left out when a state was copied to another disk.

    The run made an empty one in its place and went on behind its position, so the sums of that
    partition began at 0 again. It is refused, and nothing is processed, until it is back.
    """
    _feed(tmp_path)
    _run(tmp_path)
    lost = tmp_path / "state" / gone
    shutil.copytree(lost, tmp_path / "copy")
    shutil.rmtree(lost)
    _feed(tmp_path)

    with pytest.raises(StoreCorruptedError, match=r"'sums'.*partition [01].*put it back"):
        _run(tmp_path)
    shutil.rmtree(lost, ignore_errors=True)
    shutil.copytree(tmp_path / "copy", lost)
    _run(tmp_path)
    with LocalTopics(tmp_path / "topics") as topics:
        found = [each.record for each in topics.topic(SUMS).read()]
    assert {each.key: each.value for each in found} == dict.fromkeys("abcdefgh", 2)


@pytest.mark.spec("PRC-52", "PRC-96")
def test_a_store_that_is_new_is_begun(tmp_path: Path) -> None:
    """What the topology has more than before is not missed."""
    _feed(tmp_path)
    _run(tmp_path)
    _feed(tmp_path)
    _run(tmp_path, counts_too=True)
    _run(tmp_path, counts_too=True)

    assert sorted(each.name for each in (tmp_path / "state" / "counts").iterdir()) == ["0", "1"]


@pytest.mark.spec("PRC-49")
@pytest.mark.parametrize("gone", ["lines/1", "lines"])
def test_a_partition_of_a_topic_that_has_gone_is_named(tmp_path: Path, gone: str) -> None:
    """The state reflects records that are not there any more."""
    _feed(tmp_path)
    _run(tmp_path)
    shutil.rmtree(tmp_path / "topics" / gone)

    with pytest.raises(OffsetOutOfRangeError, match=r"partition [01] of the topic 'lines'"):
        _run(tmp_path)


def _run_on_files(directory: Path) -> list[object]:
    """Count the lines of files by key, and return what a sink was given of the counts."""
    shop = Topology("shop")
    lines = shop.stream(Topic("lines", key=ss.utf8, value=ss.json))
    counts = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    lines.group_by_key().count(counts).to(SUMS)
    given: list[object] = []
    run(
        shop,
        state=directory / "state",
        topics=directory / "topics",
        sources={"lines": JsonLines(directory / "files", key="key", time="at")},
        sinks={"sums-out": AtLeastOnce(given.append)},
        until="idle",
        backend="sqlite",
    )
    return given


def _write_lines(directory: Path, name: str) -> None:
    (directory / "files").mkdir(exist_ok=True)
    lines = [json.dumps({"key": key, "at": 1}) + "\n" for key in "abcdefgh"]
    (directory / "files" / name).write_text("".join(lines))


@pytest.mark.spec("PRC-96", "TSK-15")
def test_whatever_of_a_state_has_gone_is_refused_or_comes_back(tmp_path: Path) -> None:
    """Each directory and each file of a state and its topics in turn: removed, or emptied.

    The store of a source had gone, and all files were read again; a task's own had gone, and its
    timers were. Now there is an error, or the next run gives what an undisturbed one gives.
    """
    _write_lines(tmp_path, "1.jsonl")
    _run_on_files(tmp_path)
    _write_lines(tmp_path, "2.jsonl")
    places = [
        path.relative_to(tmp_path)
        for part in ("state", "topics")
        for path in sorted((tmp_path / part).rglob("*"))
        if path.is_dir() or path.suffix == ".json"
    ]
    refused: dict[str, str] = {}
    for number, place in enumerate(places):
        for is_emptied in (False, True):
            copy = tmp_path / f"copy-{number}-{is_emptied}"
            shutil.copytree(tmp_path / "state", copy / "state")
            shutil.copytree(tmp_path / "topics", copy / "topics")
            (copy / "files").symlink_to(tmp_path / "files")
            lost = copy / place
            if lost.is_dir():
                shutil.rmtree(lost)
                if is_emptied:
                    lost.mkdir()
            else:
                lost.unlink()
                if is_emptied:
                    lost.touch()
            try:
                given = _run_on_files(copy)
            except StateStoreError as error:
                refused[str(place)] = type(error).__name__
                continue
            with LocalTopics(copy / "topics") as topics:
                found = {each.record.key: each.record.value for each in topics.topic(SUMS).read()}
            assert (found, len(given)) == (dict.fromkeys("abcdefgh", 2), 8), place
    stores = ("counts", "lines-task", "lines-source", "sums-out-sink")
    for store in stores:
        assert refused[f"state/{store}/0"] == "StoreCorruptedError"
        assert refused[f"state/{store}/0/changelog"] == "StoreMismatchError"
        assert f"state/{store}/0/engine" not in refused
