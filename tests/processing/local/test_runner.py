"""The local runner: durable topics, resumption, refusals, threads, and what a stop leaves."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dying import Died, die
from forked_programs import Forked
from local_lives import append_orders, expected_seen, run_all, topology, written

import statestores as ss
from statestores import failpoints
from statestores.changelog import ChangelogOptions, Compression
from statestores.errors import (
    CommitConflictError,
    InvalidArgumentError,
    InvalidTopologyError,
    InvalidTypeError,
    OffsetOutOfRangeError,
    ProcessingError,
    StoreCorruptedError,
    StoreLockedError,
    TopologyMismatchError,
)
from statestores.processing import (
    DeadLetter,
    LocalRunner,
    LocalTopics,
    RawRecord,
    Record,
    Topic,
    Topology,
    run,
)
from statestores.processing.local import plan_reset
from statestores.tasks import open_task

LINES = Topic("lines", key=ss.utf8, value=ss.utf8)
OUT = Topic("out", key=ss.utf8, value=ss.int64)
BYTES = Topic("bytes")

_ORDERS = 240
"""A dozen commits of the first task."""

_LOOK_SECONDS = 0.01
"""Between two looks where a process is: who looks all the time takes the processor from it."""

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def _count(name: str = "counting", store: str = "counts", **settings: Any) -> Topology:
    counting = Topology(name, **settings)
    kept = ss.KeyValue(store, key=ss.utf8, value=ss.int64)
    counting.stream(LINES).group_by_key().count(kept).to(OUT)
    return counting


def _run(topology: Topology, tmp_path: Path, **settings: Any) -> Any:
    return run(
        topology,
        state=tmp_path / "state",
        topics=tmp_path / "topics",
        **{"until": "idle", "backend": "memory", **settings},
    )


def _append(tmp_path: Path, *keys: str, topic: Topic[str, str] = LINES) -> None:
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(topic).append(Record(key, key, at) for at, key in enumerate(keys))


def _read(tmp_path: Path, topic: Topic[Any, Any] = OUT) -> list[Any]:
    with LocalTopics(tmp_path / "topics") as topics:
        return [(each.record.key, each.record.value) for each in topics.topic(topic).read()]


@pytest.mark.spec("PRC-48")
def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Whatever is missing, and whatever time it has; in another process too, as far as one sees."""
    records: list[RawRecord] = [
        Record(b"key", b"value", 1, (("name", b"data"), ("name", b""), ("ü", b"\0"))),
        Record(None, b"", -5),
        Record(b"", None, (1 << 63) - 1),
        Record(None, None, -(1 << 63), (("", b""),)),
    ]
    with LocalTopics(tmp_path) as topics:
        assert topics.topic(BYTES, partitions=2).append_bytes(iter(records), partition=1) == 4

    with LocalTopics(tmp_path) as topics:
        found = list(topics.topic(BYTES).read())
        later = [each.record for each in topics.topic(BYTES).read(1, 2)]
    assert [each.record for each in found] == records
    assert [(each.partition, each.offset) for each in found] == [(1, at) for at in range(4)]
    assert later == records[2:]


@pytest.mark.spec("PRC-48")
def test_records_go_where_the_partitioner_says(tmp_path: Path) -> None:
    """A key always to the same partition; those without key to all in turn."""
    with LocalTopics(tmp_path) as topics:
        topic = topics.topic(BYTES, partitions=3)
        topic.append([Record(bytes([at % 5]), b"", at) for at in range(50)])
        keyed = {(each.record.key, each.partition) for each in topic.read()}
        topic.append_bytes([Record(None, b"", at) for at in range(3)])
        unkeyed = {each.partition for each in topic.read() if not each.record.key}

    assert len(keyed) == 5
    assert unkeyed == {0, 1, 2}


def test_one_writer_at_a_time_appends_and_anybody_reads(tmp_path: Path) -> None:
    """From the first append until it is closed."""
    with LocalTopics(tmp_path) as one, LocalTopics(tmp_path) as other:
        one.topic(BYTES).append_bytes([Record(None, b"1", 1)])

        assert len(list(other.topic(BYTES).read())) == 1
        with pytest.raises(StoreLockedError):
            other.topic(BYTES).append_bytes([Record(None, b"2", 2)])


@pytest.mark.spec("PRC-49", "PRC-53", "PRC-54")
def test_a_run_goes_on_where_the_one_before_has_ended(tmp_path: Path) -> None:
    """Each record counts once, however many runs there are."""
    for _ in range(3):
        _append(tmp_path, "a", "b", "a")
        _run(_count(), tmp_path)
        _run(_count(), tmp_path)

    assert [value for key, value in _read(tmp_path) if key == "a"] == [1, 2, 3, 4, 5, 6]
    assert [value for key, value in _read(tmp_path) if key == "b"] == [1, 2, 3]


@pytest.mark.spec("PRC-52", "PRC-108")
def test_a_count_does_not_go_on_from_a_table(tmp_path: Path) -> None:
    """It did, since both keep numbers under one name: a row of 5 was a count of 6 then."""
    numbers = Topic("numbers", key=ss.utf8, value=ss.int64)
    kept = ss.KeyValue("kept", key=ss.utf8, value=ss.int64)
    table, count = Topology("numbers"), Topology("numbers")
    table.table(numbers, kept)
    count.stream(numbers).group_by_key().count(kept).to(OUT)
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(numbers).append([Record("a", 5, 1)])
    _run(table, tmp_path)
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(numbers).append([Record("a", 5, 2)])

    with pytest.raises(TopologyMismatchError, match="'kept' has rows of 'table'"):
        _run(count, tmp_path)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Give what one thread writes in one commit."""
    directory = tmp_path_factory.mktemp("alone")
    append_orders(directory, 0, _ORDERS)
    run_all(directory, backend="memory", commit_records=1_000)
    return written(directory)


@pytest.mark.spec("PRC-54", "PRC-51")
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_the_tasks_and_change_no_result(
    tmp_path: Path, alone: dict[str, list[Any]], threads: int
) -> None:
    """The part before the repartition topic runs beside those after it."""
    append_orders(tmp_path, 0, _ORDERS)
    run_all(tmp_path, threads=threads, backend="memory")
    found = written(tmp_path)

    assert found == alone
    assert [each.record for each in found["seen-0"]] == expected_seen(_ORDERS)


@pytest.mark.spec("PRC-49", "PRC-50", "TSK-14")
@pytest.mark.parametrize(
    "failpoint", ["task.recording", "task.recorded", "task.output-appended", "task.carried-out"]
)
def test_a_commit_of_outputs_alone_is_one_too(
    tmp_path: Path, armed: Callable[..., None], failpoint: str
) -> None:
    """A topology that only filters has a position and outputs, and no store of its own."""
    plain = Topology("plain")
    plain.stream(LINES).filter(lambda record: record.key != "b").map_values(
        lambda record: 1, value=ss.int64
    ).to(OUT)
    for _ in range(2):
        _append(tmp_path, "a", "b", "c")
        armed(failpoint, die)
        with pytest.raises(Died):
            _run(plain, tmp_path)
        failpoints.disarm()
    _run(plain, tmp_path)

    assert _read(tmp_path) == [("a", 1), ("c", 1)] * 2


def _die_with_a_record(directory: Path, armed: Callable[..., None]) -> None:
    """Leave the record of a commit that emits one count, and is carried out nowhere."""
    _append(directory, "a")
    armed("task.recorded", die)
    with pytest.raises(Died):
        _run(_count(), directory)
    failpoints.disarm()


@pytest.mark.spec("TSK-14")
def test_a_task_whose_record_emits_is_not_opened_without_its_outputs(
    tmp_path: Path, armed: Callable[..., None]
) -> None:
    """What would be lost silently is an error instead, and the record stays."""
    _die_with_a_record(tmp_path, armed)

    with pytest.raises(CommitConflictError, match="emits records"):
        open_task(tmp_path / "state", "0_0", ["counts", "lines-task"], backend="memory")
    _run(_count(), tmp_path)
    assert _read(tmp_path) == [("a", 1)]


@pytest.mark.spec("TSK-10", "TSK-14")
def test_damaged_outputs_of_a_record_are_refused(
    tmp_path: Path, armed: Callable[..., None]
) -> None:
    """A flipped bit anywhere, an end that is gone, and one too many; put back, it is finished."""
    _die_with_a_record(tmp_path, armed)
    record = tmp_path / "state" / "@tasks" / "0_0" / "commit"
    whole = record.read_bytes()
    every = range(0, len(whole), 37)
    damages = [bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]) for at in every]
    for damage in (*damages, whole[:-8], whole + whole, b""):
        record.write_bytes(damage)
        with pytest.raises(StoreCorruptedError, match="0_0/commit"):
            _run(_count(), tmp_path)

    assert _read(tmp_path) == []
    record.write_bytes(whole)
    _run(_count(), tmp_path)
    assert _read(tmp_path) == [("a", 1)]


@pytest.mark.spec("PRC-50", "PRC-96")
def test_a_state_that_begins_anew_emits_anew(tmp_path: Path) -> None:
    """Its commits are numbered from 1 again, and are not taken for those that are there.

    That is what a reset says. A state that is just gone emitted everything a second time as well.
    """
    _append(tmp_path, "a")
    _run(_count(), tmp_path)
    (tmp_path / "state").rename(tmp_path / "old")
    with pytest.raises(TopologyMismatchError, match="'out' has what the topology 'counting' has"):
        _run(_count(), tmp_path)
    plan_reset(_count(), state=tmp_path / "state", topics=tmp_path / "topics").carry_out()
    _run(_count(), tmp_path)
    _run(_count(), tmp_path)

    assert _read(tmp_path) == [("a", 1), ("a", 1)]


@pytest.mark.spec("PRC-52")
@pytest.mark.parametrize("other", [_count("other"), _count(store="others")])
def test_another_topology_on_the_same_state_is_refused(tmp_path: Path, other: Topology) -> None:
    """Another name, or another store where one was; the first one goes on."""
    _append(tmp_path, "a")
    _run(_count(), tmp_path)

    with pytest.raises(TopologyMismatchError, match="does not fit"):
        _run(other, tmp_path)
    _append(tmp_path, "a")
    _run(_count(), tmp_path)
    assert _read(tmp_path) == [("a", 1), ("a", 2)]


@pytest.mark.spec("PRC-52")
def test_topics_of_other_partitions_are_refused(tmp_path: Path) -> None:
    """Keys would be looked for in partitions where they are not; nothing was opened."""
    _append(tmp_path, "a", topic=Topic("lines", key=ss.utf8, value=ss.utf8, partitions=2))
    three = Topology("three")
    three.stream(Topic("lines", key=ss.utf8, value=ss.utf8, partitions=3)).to(
        Topic("copy", key=ss.utf8, value=ss.utf8)
    )

    with pytest.raises(TopologyMismatchError, match="has 2 partitions"):
        _run(three, tmp_path)
    assert not (tmp_path / "state").exists()


@pytest.mark.spec("PRC-4")
def test_topics_that_are_joined_have_equal_numbers_of_partitions(tmp_path: Path) -> None:
    """Also where the topology leaves them to the topics that are there."""
    names = Topic("names", key=ss.utf8, value=ss.utf8)
    shop = Topology("joined")
    table = shop.table(names)
    shop.stream(LINES).join(table, lambda line, name: line + name, value=ss.utf8).to(
        Topic("both", key=ss.utf8, value=ss.utf8)
    )
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(names, partitions=2)
        topics.topic(LINES, partitions=3)

    with pytest.raises(InvalidTopologyError, match="repartition"):
        _run(shop, tmp_path)


def test_a_topic_that_has_lost_its_end_is_refused(tmp_path: Path) -> None:
    """What comes next would have offsets that the state has seen."""
    _append(tmp_path, "a", "b")
    _run(_count(), tmp_path)
    (tmp_path / "topics" / "lines" / "0").rename(tmp_path / "lost")

    with pytest.raises(OffsetOutOfRangeError, match="'lines' ends before offset 0"):
        _run(_count(), tmp_path)


@pytest.mark.spec("PRC-53")
def test_a_run_that_fails_says_where_and_the_next_one_begins_there(tmp_path: Path) -> None:
    """What was committed before stands; the rest is done again, once the cause is gone."""
    broken = ["b"]

    def check(value: str) -> str:
        if value in broken:
            raise ValueError("broken")
        return value

    def counting() -> Topology:
        made = Topology("checked")
        kept = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
        made.stream(LINES).map_values(check, value=ss.utf8).group_by_key().count(kept).to(OUT)
        return made

    _append(tmp_path, "a", "a", "b", "a")
    with pytest.raises(ProcessingError, match=r"lines.*partition 0.*offset 2"):
        _run(counting(), tmp_path, commit_records=1)
    before = _read(tmp_path)
    broken.clear()
    _run(counting(), tmp_path)

    assert before == [("a", 1), ("a", 2)]
    assert _read(tmp_path) == [("a", 1), ("a", 2), ("b", 1), ("a", 3)]


def test_dead_letters_are_part_of_the_commit(tmp_path: Path) -> None:
    """What cannot be decoded is in the topic of dead letters, once."""
    letters = Topic("letters")
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(LINES).append_bytes([Record(b"a", b"\xff", 1), Record(b"b", b"b", 2)])
    for _ in range(2):
        _run(_count(errors=DeadLetter(letters)), tmp_path)

    assert _read(tmp_path) == [("b", 1)]
    assert _read(tmp_path, letters) == [(b"a", b"\xff")]


def test_records_of_several_topics_are_taken_by_their_times(tmp_path: Path) -> None:
    """By those that an extractor finds, where there is one."""
    left = Topic("left", key=ss.utf8, value=ss.utf8)
    right = Topic("right", key=ss.utf8, value=ss.int64)
    both = Topology("both")
    one = both.stream(left).map_values(int, value=ss.int64)
    one.merge(both.stream(right, time="value")).to(OUT)
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(left).append(Record("l", str(at), at) for at in (1, 4, 9))
        topics.topic(right).append(Record("r", at, 0) for at in (2, 3, 8))
    _run(both, tmp_path)

    assert [value for _, value in _read(tmp_path)] == [1, 2, 3, 4, 8, 9]


def test_a_global_table_is_there_before_the_first_record_is_joined(tmp_path: Path) -> None:
    """All partitions of it, in each task."""
    names = Topic("names", key=ss.utf8, value=ss.utf8, partitions=2)
    joined = Topic("joined", key=ss.utf8, value=ss.utf8)
    shop = Topology("global")
    table = shop.global_table(names, ss.KeyValue("names", key=ss.utf8, value=ss.utf8))
    shop.stream(LINES).join(
        table, lambda line, name: f"{line}-{name}", key="value", value=ss.utf8
    ).to(joined)
    keys = [f"k{at}" for at in range(9)]
    _append(tmp_path, *keys, topic=names)
    _append(tmp_path, *keys)
    _run(shop, tmp_path, partitions=2)

    assert sorted(_read(tmp_path, joined)) == [(key, f"{key}-{key}") for key in keys]
    with pytest.raises(InvalidArgumentError, match="threads=1"):
        _run(shop, tmp_path, threads=2)


@pytest.mark.spec("PRC-53")
def test_a_stop_commits_what_was_done(tmp_path: Path) -> None:
    """From another thread; nothing else would have committed within the hour."""
    _append(tmp_path, "a", "b")
    runner = LocalRunner(
        _count(),
        tmp_path / "state",
        tmp_path / "topics",
        backend="memory",
        commit_interval_ms=ss.HOUR,
        threads=2,
    )
    ended: list[Any] = []
    thread = threading.Thread(target=lambda: ended.append(runner.run()))
    thread.start()
    while runner.report().processed < 2:
        assert thread.is_alive()
        thread.join(0.01)
    assert _read(tmp_path) == []
    runner.stop()
    thread.join()

    assert _read(tmp_path) == [("a", 1), ("b", 1)]
    assert (ended[0].processed, ended[0].emitted, ended[0].commits) == (2, 2, 1)


_MODULE = """
import statestores as ss
from statestores.processing import Topic, Topology

shop = Topology("shop")
lines = shop.stream(Topic("lines", key=ss.utf8, value=ss.utf8))
counts = lines.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
counts.to(Topic("out", key=ss.utf8, value=ss.int64))
"""

_COMMAND = """
import os
import sys

from statestores.cli import main

os.chdir(sys.argv.pop(1))
main()
"""


@pytest.mark.spec("PRC-53")
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM]
)
def test_a_signal_stops_the_command_after_a_commit(tmp_path: Path, number: int) -> None:
    """With exit code 0, and a sentence that says how far it came."""
    (tmp_path / "shop_module.py").write_text(_MODULE)
    _append(tmp_path, "a", "a")
    command = ["run", "shop_module:shop", "--local", ".", "--backend", "memory"]
    with Forked(_COMMAND, tmp_path, *command) as process:
        while not (tmp_path / "topics" / "out" / "0").is_dir():  # the first commit
            assert process.is_running(), process.errors()
            time.sleep(_LOOK_SECONDS)
        os.kill(process.process, number)
        said = process.stdout.read()
        code = process.wait()

    assert (code, said.split(" in ")[0]) == (
        0,
        "2 records processed, 2 emitted, 0 dropped,",
    )
    assert _read(tmp_path) == [("a", 1), ("a", 2)]


def test_the_description_of_a_state_names_its_topology(tmp_path: Path) -> None:
    """The kit's topology runs on an empty state, and finds nothing to do."""
    progress = _run(topology(), tmp_path)

    assert (progress.processed, progress.commits) == (0, 0)


@pytest.mark.spec("LOG-22", "LOG-8")
def test_changelogs_are_compressed_as_the_run_says(tmp_path: Path) -> None:
    """From then on: what was written before is read all the same. Other options are refused."""
    long = "k" * 500
    sizes = []
    for compression in (Compression.LZ4, Compression.NONE, Compression.ZSTD):
        _append(tmp_path, long, "other")
        _run(_count(), tmp_path, changelog_options=ChangelogOptions(compression=compression))
        files = (tmp_path / "state").rglob("changelog/*")
        sizes.append(sum(each.read_bytes().count(long.encode()) for each in files))
    with pytest.raises(InvalidTypeError, match="changelog_options"):
        _run(_count(), tmp_path, changelog_options={"compression": "none"})

    assert sizes[0] == 0
    assert sizes[1] == sizes[2] > 0
    assert _read(tmp_path)[-2:] == [(long, 3), ("other", 3)]
