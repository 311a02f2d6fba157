"""What of a state and of topics has gone is told by name, and never taken for what is new."""

import re
import shutil
from itertools import combinations
from pathlib import Path

import pytest
from put_back import EQUAL, WRONG, Copies

import statestores as ss
from statestores.errors import (
    OffsetOutOfRangeError,
    StoreCorruptedError,
    TopologyMismatchError,
)
from statestores.processing import LocalTopics, Record, Topic, Topology, run

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

    assert sorted(each.name for each in (tmp_path / "state" / "counts").iterdir()) == [
        ".begun",
        "0",
        "1",
    ]


@pytest.mark.spec("PRC-49")
@pytest.mark.parametrize("gone", ["lines/1", "lines"])
def test_a_partition_of_a_topic_that_has_gone_is_named(tmp_path: Path, gone: str) -> None:
    """The state reflects records that are not there any more."""
    _feed(tmp_path)
    _run(tmp_path)
    shutil.rmtree(tmp_path / "topics" / gone)

    with pytest.raises(OffsetOutOfRangeError, match=r"partition [01] of the topic 'lines'"):
        _run(tmp_path)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Copies:
    """Give three runs of a topology, and a copy after each."""
    return Copies(tmp_path_factory.mktemp("copies"), "sqlite")


@pytest.mark.spec("PRC-96", "TSK-15", "TSK-16")
@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("state", "the topic .* has what the commit 2 of the task 0_0 has emitted"),
        ("state/sums", "the task 0_0 has committed 'sums' up to offset"),
        ("state/seen/1", "the task 0_1 has committed 'seen' up to offset 1 .*in partition 1 of"),
        ("state/words", "the task 2_0 has committed 'words' up to offset"),
        ("state/lines-task", "the task 1_0 has committed 'lines-task' up to offset"),
        ("state/lines-source", "the task 3_0 has committed 'lines-source' up to offset"),
        ("state/sums-out-sink", "the task 4_0 has committed 'sums-out-sink' up to offset"),
        ("state/@sources", "the topic 'lines' has no more than the commit 1 of the task 3_0"),
        ("topics/words-out", "the topic 'words-out' has no more than the commit 1 of the task 2_0"),
        (
            "topics/shop-words-repartition/0",
            "'shop-words-repartition' has no more than the commit 1",
        ),
        ("state/@tasks", EQUAL),
        ("state/sums/0/engine", EQUAL),
    ],
)
def test_an_older_copy_among_newer_ones_is_refused(copies: Copies, place: str, told: str) -> None:
    """One store, one topic or the whole state was put back from a copy of the day before.

    The run went on: sums had lost a day, or files were read and records emitted a second time. Now
    there is an error that names what is behind; what can be caught up is.
    """
    assert re.search(told, copies.outcome(put_back=[Path(place)]))


@pytest.mark.spec("PRC-96", "TSK-15", "TSK-16")
@pytest.mark.parametrize(
    ("places", "told"),
    [
        (["state"], "the topic 'sums-out' has what the topology 'shop' has emitted with the state"),
        (["state/@tasks"], r"topology\.json', which says of what topology, is gone"),
        (["state/@tasks/topology.json", "state/statestores.json"], "have run on .* left '0_0'"),
        (["state/@tasks", "state/lines-source"], r"topology\.json', which says of what topology"),
        (["state/@tasks/4_0", "state/sums-out-sink"], "the task 4_0 has written 'sums-out-sink'"),
        (["state/@tasks/1_0"], "the task 1_0 has written 'lines-task', and its directory"),
        (["state/@tasks/0_1.ends", "state/seen/1"], "the task 0_1 has written 'seen', of which"),
        (["topics/words-out"], "the topic 'words-out' has nothing of the task 2_0"),
        (["state/@tasks/2_0.ends", "topics/words-out"], "'words-out' has nothing of the task 2_0"),
        (["state/@tasks/0_0.ends"], EQUAL),
    ],
)
def test_what_has_gone_together_is_told_by_name(
    copies: Copies, places: list[str], told: str
) -> None:
    """The commits of a task, or the note of the topology, were lost together with a store.

    What knew of the store had gone with it, so it began anew. The note alone was made anew, and a
    topology that would leave stores behind was no longer refused.
    """
    assert re.search(told, copies.outcome(removed=map(Path, places)))


@pytest.mark.spec("PRC-96")
def test_a_state_is_not_led_to_the_topics_of_another_one(tmp_path: Path) -> None:
    """A state whose topics were new was run on those of a state that had gone.

    Whether they have what another state has emitted was asked of a new state alone, and this one
    was begun on a wrong directory. It processed the input from its beginning, and grouped records
    came behind those of the other one: each was counted twice.
    """
    words = Topology("words")
    count = ss.KeyValue("counts", key=ss.int64, value=ss.int64)
    words.stream(LINES).group_by("value", key=ss.int64).count(count)
    wrong = tmp_path / "wrong"

    def go(state: str, topics: Path) -> None:
        run(words, state=tmp_path / state, topics=topics, until="idle", backend="memory")

    _feed(tmp_path)
    go("state", tmp_path / "topics")
    go("begun", wrong)
    with pytest.raises(TopologyMismatchError, match="'words-counts-repartition' has what the st"):
        go("begun", tmp_path / "topics")
    go("begun", wrong)
    go("state", tmp_path / "topics")


@pytest.mark.soak
@pytest.mark.spec("PRC-96", "TSK-15", "TSK-16")
@pytest.mark.parametrize("backend", ["memory", "sqlite", "leveldb", "rocksdb"])
def test_whatever_of_a_state_is_lost_or_older_is_refused_or_comes_back(
    tmp_path: Path, backend: str
) -> None:
    """Each directory and file of state and topics: older, removed and emptied; and pairs of rooms.

    The store of a source had gone, and all files were read again; a task's own had gone, and its
    timers were. Now there is an error, or the next run gives what an undisturbed one gives.
    """
    copies = Copies(tmp_path, backend)
    outcomes: dict[str, str] = {}
    for place in copies.places():
        outcomes[f"older: {place}"] = copies.outcome(put_back=[place])
        outcomes[f"removed: {place}"] = copies.outcome(removed=[place])
        outcomes[f"emptied: {place}"] = copies.outcome(emptied=[place])
    for one, other in combinations(copies.rooms() if backend == "sqlite" else (), 2):
        if one not in other.parents and {one, other} != {Path("state"), Path("topics")}:
            outcomes[f"removed: {one}, {other}"] = copies.outcome(removed=[one, other])

    assert {place: told for place, told in outcomes.items() if told.startswith(WRONG)} == {}
