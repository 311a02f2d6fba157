"""Updates that wait for the commits of a local run."""

from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError
from statestores.logged_store import open_logged_store
from statestores.processing import LocalTopics, Record, Topic, Topology, run

LINES = Topic("lines", key=ss.utf8, value=ss.utf8, partitions=2)
COUNTED = Topic("counted", key=ss.utf8, value=ss.int64, partitions=1)
COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
_KEYS = 8
_ROUNDS = 30


def _counting() -> Topology:
    made = Topology("counting")
    made.stream(LINES).group_by_key().count(COUNTS).to(COUNTED)
    return made


def _counted(directory: Path, **settings: Any) -> tuple[list[Record[str, int]], dict[str, int]]:
    """Run over the same lines; return what came out, and what the stores have."""
    with LocalTopics(directory / "topics") as topics:
        before = topics.topic(COUNTED).end_offset()
        topics.topic(LINES).append(
            Record(f"k{at % _KEYS}", "x", at) for at in range(_KEYS * _ROUNDS)
        )
    report = run(
        _counting(),
        state=directory / "state",
        topics=directory / "topics",
        backend="memory",
        until="idle",
        commit_interval_ms=ss.HOUR,
        durability=ss.Durability.PROCESS_CRASH,
        **settings,
    )
    with LocalTopics(directory / "topics") as topics:
        out = [each.record for each in topics.topic(COUNTED).read()]
    stored: dict[str, int] = {}
    for number in range(2):
        with open_logged_store(directory / "state", "counts", number, backend="memory") as logged:
            stored |= {key: found.value for key, found in logged.store.range()}

    assert report.emitted == len(out) - before
    return out, stored


@pytest.mark.spec("PRC-82")
def test_of_each_key_one_update_comes_out_of_a_commit(tmp_path: Path) -> None:
    """A cache too small lets them out before; stores are the same, and so is the last of each."""
    every, stored = _counted(tmp_path / "every")
    few, cached = _counted(tmp_path / "few", cache_max_bytes=1 << 20)
    some, squeezed = _counted(tmp_path / "some", cache_max_bytes=1_000)
    by_commit, _ = _counted(tmp_path / "commits", cache_max_bytes=1 << 20, commit_records=40)
    again, _ = _counted(tmp_path / "few", cache_max_bytes=1 << 20)

    assert stored == cached == squeezed == {f"k{at}": _ROUNDS for at in range(_KEYS)}
    assert len(every) == _KEYS * _ROUNDS
    assert sorted(record.key for record in few) == sorted(stored)
    assert len(few) < len(by_commit) < len(every)
    assert len(few) < len(some)
    for found in (every, few, some, by_commit):
        assert {record.key: record.value for record in found} == stored
        for key in stored:
            values = [record.value for record in found if record.key == key]
            assert values == sorted(set(values))
    assert {record.key: record.value for record in again} == dict.fromkeys(stored, 2 * _ROUNDS)


def test_a_cache_has_a_size(tmp_path: Path) -> None:
    """From no bytes on."""
    with pytest.raises(InvalidArgumentError, match="cache_max_bytes"):
        run(_counting(), state=tmp_path / "s", topics=tmp_path / "t", cache_max_bytes=-1)
