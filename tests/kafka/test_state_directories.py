"""What an instance finds in its directory: its own stores, or somebody else's, which it leaves."""

import json
from pathlib import Path

import pytest

import statestores as ss
from statestores.errors import StoreCorruptedError, StoreMismatchError, TopologyMismatchError
from statestores.kafka.identity import INSTANCE_FILE, claim
from statestores.kafka.tasks.task_stores import TaskStores
from statestores.processing import Topic, Topology
from statestores.processing.topology import Graph

_COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


def counting(name: str) -> Graph:
    """Count words."""
    topology = Topology(name)
    words = Topic("words", key=ss.utf8, value=ss.utf8, partitions=1)
    topology.stream(words).group_by_key().count(_COUNTS)
    return topology.build()


@pytest.mark.spec("KFK-34")
def test_a_state_of_another_is_refused(tmp_path: Path) -> None:
    """A run on Kafka went on from the counts of a local one: their stores lie in the same places.

    It was silent, and the first word on Kafka was counted as the fourth.
    """
    root = ss.StateRoot.create(tmp_path / "local")
    with pytest.raises(TopologyMismatchError, match="is a state root, and its stores reflect"):
        claim(root.path, counting("shop"))
    assert not (root.path / INSTANCE_FILE).exists()
    own = tmp_path / "own"
    own.mkdir()
    identity = claim(own, counting("shop"))
    with pytest.raises(TopologyMismatchError, match="of the topology 'shop', and 'other' is to"):
        claim(own, counting("other"))

    assert claim(own, counting("shop")) == identity


@pytest.mark.spec("LAY-24")
@pytest.mark.parametrize("name", ["name", "internal_topics", "stores", "parts"])
def test_a_note_that_no_release_writes_is_refused_by_name(tmp_path: Path, name: str) -> None:
    """It was compared as it was: a start ended with `KeyError`, and nothing said where."""
    claim(tmp_path, counting("shop"))
    file = tmp_path / INSTANCE_FILE
    content = json.loads(file.read_bytes())
    del content["topology"][name]
    file.write_text(json.dumps(content))

    with pytest.raises(StoreCorruptedError, match=INSTANCE_FILE):
        claim(tmp_path, counting("shop"))


@pytest.mark.spec("KFK-34")
def test_rows_that_reflect_nothing_known_are_refused(tmp_path: Path) -> None:
    """Without the note whose it is, a directory was anybody's. What is there stays as it was."""
    part, *_ = counting("shop").sub_topologies

    def opened(application: str) -> TaskStores:
        durability = ss.Durability.PROCESS_CRASH
        return TaskStores(
            application, part, 0, tmp_path, backend="sqlite", options=None, durability=durability
        )

    with opened("shop") as stores:
        stores.for_processors()["counts"].put("tea", 3, 1)
        stores.logged["counts"].commit(0)
    with pytest.raises(
        StoreMismatchError, match=r"no committed offset of .*other-counts-changelog"
    ):
        opened("other")

    with opened("shop") as stores:
        assert stores.for_processors()["counts"].get("tea").value == 3


@pytest.mark.spec("KFK-23", "KFK-50")
@pytest.mark.parametrize("committed", [0, 3, 30, 40])
def test_restored_stores_have_the_position_that_the_group_has(
    tmp_path: Path, committed: int
) -> None:
    """A topic was deleted and created anew, and stores went on to say what they had of the old one.

    Positions were merged only, so the higher offset stayed. Of a topic that the task does not read,
    nobody says anything else than the store. It is looked at after another opening.
    """
    words, other = ss.TopicPartition("words", 0), ss.TopicPartition("other", 0)
    part = counting("shop").sub_topologies[0]

    def opened() -> TaskStores:
        return TaskStores(
            *("shop", part, 0, tmp_path),
            backend="sqlite",
            options=None,
            durability=ss.Durability.PROCESS_CRASH,
        )

    with opened() as stores:
        for logged in stores.logged.values():
            logged.store.advance_position({words: 29, other: 7})
            logged.commit(29)
    with opened() as stores:
        stores.note_position([words], {words: committed} if committed else {})
    with opened() as stores:
        positions = {name: logged.store.position for name, logged in stores.logged.items()}

    expected = {other: 7, words: committed - 1} if committed else {other: 7}
    assert positions == dict.fromkeys(positions, expected)
    assert "counts" in positions
