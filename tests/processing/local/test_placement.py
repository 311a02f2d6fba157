"""Whose keys a topology's stores have: noted in the state root, and heeded by what reads it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from many_stores import OF_KEYS, OF_TASKS, PARTITIONS, run_all, topology

import statestores as ss
from statestores.errors import InvalidArgumentError, StoreCorruptedError
from statestores.logged_store import open_logged_store
from statestores.root_document import Placement
from statestores.serving import FollowedRoot
from statestores.serving.answers import Answers
from statestores.serving.limits import Deadline
from statestores.serving.query import Query
from statestores.spi import Durability
from statestores.verification import Finding, Status, verify


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the directory of a run that has ended; nobody writes to it."""
    directory = tmp_path_factory.mktemp("ran")
    run_all(directory, backend="memory", durability=Durability.PROCESS_CRASH)
    return directory / "state"


@pytest.fixture
def state(ran: Path, tmp_path: Path) -> Path:
    """Give a copy of it."""
    return Path(shutil.copytree(ran.parent, tmp_path / "ran")) / "state"


def _forget_placement(state: Path) -> None:
    """Make the root what an earlier release has left."""
    file = state / "statestores.json"
    document = json.loads(file.read_text("utf-8"))
    del document["crc32"]
    for entry in document["stores"].values():
        del entry["placement"]
    file.write_text(json.dumps(document), "utf-8")


def _misplace(state: Path, store: str) -> None:
    """Put keys into the partition of a store, whatever the partitioner says."""
    with open_logged_store(state, store, 1) as logged:
        for number in range(20):
            logged.store.put(f"stray-{number}", "x", 5)
        logged.commit()


def _placed(state: Path) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in verify(state, with_engine=False):
        if finding.check == "partition":
            found.setdefault(_store(finding, state), []).append(finding)
    return found


def _store(finding: Finding, state: Path) -> str:
    return Path(finding.path).relative_to(state).parts[0]


@pytest.mark.spec("PRC-90", "LAY-11", "PAR-10")
def test_a_sound_state_of_every_store_is_found_sound(ran: Path) -> None:
    """Queues, a processor's own counts and a task's timers were called misplaced.

    Nobody partitions these. Tables, aggregates and windows are checked as they were.
    """
    entries = ss.StateRoot.open(ran).stores
    failures = [each for each in verify(ran, with_engine=False) if each.is_failure]
    statuses = {
        name: {finding.status for finding in findings} for name, findings in _placed(ran).items()
    }

    assert failures == []
    assert {name for name, each in statuses.items() if each == {Status.OK}} == OF_KEYS
    assert {
        name for name, entry in entries.items() if entry.placement is Placement.PARTITIONER
    } == OF_KEYS
    tasks = {f"{part.name}-task" for part in topology().build().sub_topologies}
    assert {name for name, each in statuses.items() if each == {Status.SKIPPED}} == OF_TASKS | tasks
    assert entries.keys() == OF_KEYS | OF_TASKS | tasks


@pytest.mark.spec("PAR-10")
def test_a_key_of_a_table_that_lies_elsewhere_is_still_found(state: Path) -> None:
    """What a record's key decides has one partition."""
    _misplace(state, "latest")
    failures = [each for each in verify(state, with_engine=False) if each.is_failure]

    assert {(_store(each, state), each.status) for each in failures} == {
        ("latest", Status.MISPLACED)
    }
    assert "'stray-" in failures[0].detail


@pytest.mark.spec("PRC-90", "LAY-11")
def test_the_state_of_an_earlier_release_is_not_called_misplaced(state: Path) -> None:
    """It has not noted what its stores are; the next run does, and all is checked from then on."""
    _forget_placement(state)
    failures = [each for each in verify(state, with_engine=False) if each.is_failure]
    unsure = {
        name
        for name, findings in _placed(state).items()
        if any("run it once, which notes it" in each.detail for each in findings)
    }
    run_all(state.parent, backend="memory", durability=Durability.PROCESS_CRASH)
    _misplace(state, "latest")
    after = [each for each in verify(state, with_engine=False) if each.is_failure]

    assert failures == []
    assert unsure
    assert not unsure & OF_KEYS
    assert {_store(each, state) for each in after} == {"latest"}


def _cli(*arguments: object) -> Any:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


@pytest.mark.spec("PRC-90")
def test_commands_and_servers_read_stores_of_tasks(ran: Path) -> None:
    """`info`, `changelog`, `get` and what is served: by the number of the partition."""
    about, shown = _cli("info", ran, "--json"), _cli("info", ran)
    placements = {each["store"]["name"]: each["placement"] for each in about["stores"]}
    changes = _cli("changelog", ran / "by-hour" / "1")
    got = _cli("get", ran, "0", "--store", "by-hour", "--partition", 1, "--json")
    with FollowedRoot(ss.StateRoot.open(ran), backend="memory") as followed:
        answers = Answers(followed)
        found = [
            list(
                answers.rows(
                    Query(store="by-hour", read="range", partition=number), Deadline(10_000)
                )[1]
            )
            for number in range(PARTITIONS)
        ]

    assert {name for name, each in placements.items() if each == "task"} >= OF_TASKS
    assert {name for name, each in placements.items() if each == "partitioner"} == OF_KEYS
    assert shown.count("keys placed by") == sum(each == "task" for each in placements.values())
    assert changes.startswith("offset")
    assert got["value"] > 0
    assert all(found)


@pytest.mark.spec("LAY-11")
def test_a_placement_is_one_that_is_known(tmp_path: Path) -> None:
    """In the call, and in the file."""
    root = ss.StateRoot.create(tmp_path)
    store = ss.KeyValue("queue")
    with pytest.raises(InvalidArgumentError, match="placement must be one of"):
        root.add_store(store, partitions=2, placement="nobody")  # type: ignore[arg-type]
    noted = root.add_store(store, partitions=2, placement="task")
    kept = root.add_store(store, partitions=2)
    changed = root.add_store(store, partitions=2, placement="partitioner")
    file = tmp_path / "statestores.json"
    file.write_text(file.read_text("utf-8").replace('"partitioner"', '"chance"'), "utf-8")

    assert (noted.placement, kept.placement) == (Placement.TASK, Placement.TASK)
    assert changed.placement is Placement.PARTITIONER
    with pytest.raises(StoreCorruptedError, match="placement"):
        ss.StateRoot.open(tmp_path)
