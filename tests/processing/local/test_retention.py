"""What leaves a local topic: behind its readers, and by its retention; and a crash in between."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dying import Died, die

import statestores as ss
from statestores import failpoints
from statestores.errors import InvalidArgumentError, InvalidTypeError, OffsetOutOfRangeError
from statestores.processing import LocalTopics, Record, Topic, Topology, run
from statestores.processing.local import AtLeastOnce, Items, Retention, plan_reset, retention

IN = Topic("in", key=ss.utf8, value=ss.int64, partitions=1)
OUT = Topic("out", key=ss.utf8, value=ss.int64, partitions=1)
STORE = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close a segment that holds anything."""
    monkeypatch.setattr(retention, "SEAL_BYTES", 200)


def _counting() -> Topology:
    made = Topology("counting")
    changed = made.stream(IN).rekey(lambda record: f"k{record.value % 3}", key=ss.utf8)
    changed.repartition("by-rest", partitions=1).group_by_key().count(STORE).to(OUT)
    return made


def _append(directory: Path, first: int, count: int) -> None:
    with LocalTopics(directory / "topics") as topics:
        for at in range(first, first + count, 5):
            topics.topic(IN).append(Record("k", number, number) for number in range(at, at + 5))
            topics.topic(IN).logs[0].remove(0, None)  # nothing, but that was a segment


def _run(directory: Path, **more: Any) -> Any:
    return run(
        _counting(),
        state=directory / "state",
        topics=directory / "topics",
        **{"until": "idle", "backend": "memory", "commit_records": 10, **more},
    )


def _kept(directory: Path, topic: Topic[Any, Any] | str) -> tuple[int, int]:
    """Return the first offset that is there, and the end."""
    name = topic if isinstance(topic, str) else topic.name
    with LocalTopics(directory / "topics") as topics:
        (log,) = topics.topic(Topic(name)).logs
        return log.first_offset, log.end_offset


def _results(directory: Path) -> list[Any]:
    with LocalTopics(directory / "topics") as topics:
        return [each.record for each in topics.topic(OUT).read()]


@pytest.mark.spec("PRC-67")
def test_a_repartition_topic_is_emptied_behind_its_reader(tmp_path: Path) -> None:
    """So is the topic of a source; what the user has named stays."""
    for first in (0, 50, 100):
        _append(tmp_path, first, 50)
        _run(tmp_path)

    first, end = _kept(tmp_path, "counting-by-rest-repartition")
    assert (first, end) == (150, 150)
    assert _kept(tmp_path, IN) == (0, 150)
    assert [each.value for each in _results(tmp_path) if each.key == "k0"] == list(range(1, 51))
    records = [Record("k", number, number) for number in range(60)]
    _run(tmp_path / "fed", sources={"in": Items(records)})
    with LocalTopics(tmp_path / "fed" / "state" / "@sources") as topics:
        assert topics.topic(IN).logs[0].first_offset == 60


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Give what comes of 200 records where nothing is removed, and nobody crashes."""
    directory = tmp_path_factory.mktemp("calm")
    _append(directory, 0, 200)
    _run(directory)
    return _results(directory)


@pytest.mark.spec("PRC-66", "PRC-67")
@pytest.mark.parametrize("at", [1, 2, 5, 19])
def test_a_crash_in_the_middle_of_a_removal_is_harmless(
    tmp_path: Path, armed: Callable[..., None], calm: list[Any], at: int
) -> None:
    """Some segments are gone and some are there; the next run goes on, and removes the rest."""
    for first in (0, 100):
        _append(tmp_path, first, 100)
        armed("changelog.removed", die, at=at)
        with pytest.raises(Died):
            _run(tmp_path, retention={"in": Retention(max_bytes=1)})
        failpoints.disarm()
    _run(tmp_path, retention={"in": Retention(max_bytes=1)})

    assert _results(tmp_path) == calm
    assert _kept(tmp_path, IN) == (200, 200)


@pytest.mark.spec("PRC-66")
def test_old_records_go_and_never_those_that_are_not_committed(tmp_path: Path) -> None:
    """By when they were appended; a reader that is behind keeps what it needs."""
    _append(tmp_path, 0, 50)
    hour_ago = time.time() - 3_600
    old, young = Retention(after_ms=60_000), Retention(after_ms=2 * ss.HOUR)
    for segment in (tmp_path / "topics" / "in" / "0").glob("*.log"):
        os.utime(segment, (hour_ago, hour_ago))
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(IN).logs[0].remove(22, old)  # its reader has come so far
    assert _kept(tmp_path, IN) == (20, 50)
    _run(tmp_path, retention={"in": young})
    assert _kept(tmp_path, IN) == (20, 50)
    _run(tmp_path, retention={"in": old})
    assert _kept(tmp_path, IN) == (50, 50)
    _append(tmp_path, 50, 10)
    _run(tmp_path, retention={"in": old})

    assert _kept(tmp_path, IN) == (50, 60)
    assert len(_results(tmp_path)) == 40


@pytest.mark.spec("PRC-66")
def test_the_oldest_records_beyond_a_limit_of_bytes_go(tmp_path: Path) -> None:
    """Segment by segment, of a topic that only a sink reads, too."""
    seen: list[Any] = []
    for first in range(0, 200, 20):
        _append(tmp_path, first, 20)
        _run(
            tmp_path,
            retention={"out": Retention(max_bytes=4_000), "in": Retention(max_bytes=4_000)},
            sinks={"out": AtLeastOnce(seen.append)},
        )
    sizes = {
        name: sum(each.stat().st_size for each in (tmp_path / "topics" / name / "0").glob("*.log"))
        for name in ("in", "out")
    }

    assert len(seen) == 200
    assert all(0 < size < 8_000 for size in sizes.values()), sizes
    assert all(_kept(tmp_path, topic)[0] > 0 for topic in (IN, OUT))
    assert [each.value for each in _results(tmp_path)] == [
        each.record.value for each in seen[_kept(tmp_path, OUT)[0] :]
    ]


@pytest.mark.spec("PRC-66")
def test_a_state_that_needs_what_is_gone_is_refused(tmp_path: Path) -> None:
    """One that was reset begins with what is there."""
    _append(tmp_path, 0, 50)
    _run(tmp_path)
    _append(tmp_path, 50, 50)
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(IN).logs[0].remove(None, Retention(max_bytes=1))

    with pytest.raises(OffsetOutOfRangeError, match="begins at offset 100"):
        _run(tmp_path)
    _append(tmp_path, 100, 5)
    plan_reset(_counting(), state=tmp_path / "state", topics=tmp_path / "topics").carry_out()
    assert _run(tmp_path).processed == 10


def test_a_retention_says_something_and_of_a_topic_that_has_one(tmp_path: Path) -> None:
    """Each refusal with the next step."""
    for settings in ({}, {"after_ms": 0}, {"max_bytes": 0}):
        with pytest.raises(InvalidArgumentError):
            Retention(**settings)
    for name in ("none", "counting-by-rest-repartition"):
        with pytest.raises(InvalidArgumentError, match="there are: in, out"):
            _run(tmp_path, retention={name: Retention(after_ms=1)})
    with pytest.raises(InvalidTypeError, match="expected a Retention"):
        _run(tmp_path, retention={"in": 7})
