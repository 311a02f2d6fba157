"""What a topology has noted of itself is verified, and read strictly by whoever runs it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke

import statestores as ss
from statestores.errors import StoreCorruptedError, UnsupportedFormatError
from statestores.object_root import RootObject
from statestores.processing import LocalTopics, Record, Topic, Topology, run
from statestores.root_document import TOPOLOGY_NOTE, with_checksum
from statestores.storage import Found
from statestores.topology_note import noted_topology
from statestores.verification import Finding, Status, verify

LINES = Topic("lines", key=ss.utf8, value=ss.int64, partitions=1)


def _run(directory: Path) -> None:
    shop = Topology("shop")
    grouped = shop.stream(LINES).group_by(lambda record: record.key)
    grouped.sum("value", ss.KeyValue("sums", key=ss.utf8, value=ss.int64))
    state, topics = directory / "state", directory / "topics"
    run(shop, state=state, topics=topics, until="idle", backend="sqlite")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state of a topology that has run."""
    with LocalTopics(tmp_path / "topics") as topics:
        topics.topic(LINES).append(Record(key, 1, 1) for key in "abc")
    _run(tmp_path)
    return tmp_path / "state"


def _notes(state: Path | str) -> list[Finding]:
    return [each for each in verify(state) if each.check == "topology"]


def _change(state: Path, change: Callable[[dict[str, Any]], object]) -> None:
    note = state / TOPOLOGY_NOTE
    content = json.loads(note.read_bytes())
    change(content)
    note.write_text(json.dumps(with_checksum(content)))


@pytest.mark.spec("TSK-23")
def test_a_note_that_is_whole_is_said_to_be(state: Path) -> None:
    """And names the state."""
    [finding] = _notes(state)

    assert finding.status is Status.OK
    assert finding.path == state / TOPOLOGY_NOTE
    assert "'shop-" in finding.detail


@pytest.mark.spec("TSK-23")
def test_a_note_that_is_damaged_is_found_by_whatever_looks_for_damage(state: Path) -> None:
    """A topology was not run on its state any more, and `verify` and `doctor` found nothing."""
    note = state / TOPOLOGY_NOTE
    note.write_bytes(note.read_bytes()[:-20])
    [finding] = _notes(state)
    told = json.loads(invoke("doctor", str(state), "--json").stdout)
    [symptom] = [each for each in told["symptoms"] if each["code"] == "topology-damaged"]

    assert finding.status is Status.DAMAGED
    assert finding.path == note
    assert symptom["detail"] == finding.detail
    assert invoke("verify", str(state)).exit_code == 1
    with pytest.raises(StoreCorruptedError):
        _run(state.parent)


@pytest.mark.spec("TSK-23")
def test_a_store_that_its_tasks_place_need_not_be_a_topologys(tmp_path: Path) -> None:
    """Whoever writes tasks of their own may have such stores, and there is no note of them."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.KeyValue("queue"), partitions=2, placement="task")

    assert _notes(root.path) == []


@pytest.mark.spec("TSK-23")
def test_a_note_of_a_later_release_is_said_to_be_one(state: Path) -> None:
    """It is no damage."""
    _change(state, lambda content: content.update(format=2))
    [finding] = _notes(state)
    codes = [each["code"] for each in _symptoms(state)]

    assert isinstance(finding.error, UnsupportedFormatError)
    assert "newer-format" in codes
    assert "topology-damaged" not in codes


def _symptoms(state: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(invoke("doctor", str(state), "--json").stdout)[
        "symptoms"
    ]
    return found


@pytest.mark.spec("LAY-24", "TSK-23")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("topology",), []),
        (("topology", "name"), None),
        (("topology", "stores"), None),
        (("topology", "stores", "sums"), "text"),
        (("topology", "stores", "sums", "value"), 3),
        (("topology", "parts"), {"a": 7}),
        (("topology", "homes"), []),
        (("topology", "keepers"), []),
        (("topology", "steps"), []),
        (("groups",), []),
        (("state",), 7),
    ],
    ids=lambda each: ".".join(each) if isinstance(each, tuple) else None,
)
def test_a_note_that_no_release_writes_is_refused_by_name(
    state: Path, place: tuple[str, ...], value: object
) -> None:
    """A run ended with `KeyError` or `AttributeError`, and nothing said where.

    Only the outer fields of the note were read strictly, and the description in it was compared as
    it was.
    """

    def change(content: dict[str, Any]) -> None:
        for name in place[:-1]:
            content = content[name]
        if value is None:
            del content[place[-1]]
        else:
            content[place[-1]] = value

    _change(state, change)
    [finding] = _notes(state)

    assert finding.status is Status.DAMAGED
    with pytest.raises(StoreCorruptedError, match=r"topology\.json"):
        _run(state.parent)


@pytest.mark.spec("TSK-23")
def test_the_note_of_an_object_root_is_looked_at(state: Path) -> None:
    """An object instead of a file."""
    root = ss.StateRoot.create("memory://verified-topology/note")
    storage = root.storage
    assert storage is not None
    name = TOPOLOGY_NOTE.as_posix()
    storage.create(name, (state / TOPOLOGY_NOTE).read_bytes())
    [whole] = _notes("memory://verified-topology/note")
    found = storage.read(name)
    assert isinstance(found, Found)
    RootObject(storage, name).replace({"format": 1}, found.tag)
    [damaged] = _notes("memory://verified-topology/note")

    assert whole.status is Status.OK
    assert damaged.status is Status.DAMAGED
    assert str(damaged.path).endswith(name)
    with pytest.raises(StoreCorruptedError):
        noted_topology(storage)
