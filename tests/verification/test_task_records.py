"""What tasks keep beside their stores is verified: of a directory, and of an object store."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from directory_records import directory_of

import statestores as ss
from statestores import failpoints
from statestores.errors import StoreCorruptedError
from statestores.storage import Found
from statestores.tasks import open_task
from statestores.tasks.commits.record_file import pack_record, unpack_record
from statestores.verification import Finding, Status, verify

NAMES = ("counts", "rates")

_numbers = itertools.count()


class _Died(BaseException):
    """The process ends here, as far as a task can tell."""


def _die() -> None:
    raise _Died


@pytest.fixture(params=["directory", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a root is whose task died once its second commit was carried out, but not forgotten."""
    objects = f"memory://verified-tasks/{next(_numbers)}"
    where = str(tmp_path / "state") if request.param == "directory" else objects
    root = ss.StateRoot.create(where)
    for name in NAMES:
        root.add_store(ss.KeyValue(name, key=ss.utf8, value=ss.int64), partitions=1)
    with open_task(root, "0_0", NAMES, local_directory=tmp_path / "a", backend="memory") as task:
        for number in (1, 2):
            for name in NAMES:
                task.store(name).put("number", number)
            if number == 2:
                failpoints.arm("task.carried-out", _die)
            try:
                task.commit({})
            except _Died:
                failpoints.disarm()
    return where


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Iterator[None]:
    yield
    failpoints.disarm()


def _record(place: str) -> str:
    """Return where the record is: a path, or the name of an object."""
    storage = ss.StateRoot.open(place).storage
    if storage is None:
        return str(Path(place) / "@tasks" / "0_0" / "commit")
    [name] = [each.name for each in storage.list("@tasks/") if "/records/" in each.name]
    return name


def _change(place: str, change: Callable[[bytearray], object]) -> None:
    """Change the bytes of the record."""
    name, storage = _record(place), ss.StateRoot.open(place).storage
    found = None if storage is None else storage.read(name)
    data = bytearray(found.data if isinstance(found, Found) else Path(name).read_bytes())
    change(data)
    if storage is None:
        Path(name).write_bytes(data)
    else:
        storage.delete(name)
        storage.create(name, bytes(data))


def _flip(data: bytearray) -> None:
    data[-3] ^= 1


def _of_tasks(place: str) -> list[Finding]:
    return [each for each in verify(place) if each.check.startswith("task")]


def _codes(place: str) -> dict[str, Any]:
    result = invoke("doctor", place, "--json")
    symptoms = json.loads(result.stdout)["symptoms"]
    assert result.exit_code == (any(each["severity"] != "note" for each in symptoms))
    return {each["code"]: each for each in symptoms}


@pytest.mark.spec("TSK-22")
def test_a_record_that_is_whole_is_said_and_carried_out_by_nobody(place: str) -> None:
    """By the opening alone, and afterwards there is nothing to say."""
    found = [_of_tasks(place) for _ in range(2)]
    codes = _codes(place)
    with open_task(ss.StateRoot.open(place), "0_0", NAMES, backend="memory", **_local(place)):
        pass

    assert found[0] == found[1]
    assert [(each.check, each.status) for each in found[0]] == [("task commit", Status.OK)]
    assert "'counts', 'rates'" in found[0][0].detail
    assert "task-damaged" not in codes
    assert _of_tasks(place) == []


@pytest.mark.spec("TSK-23")
def test_a_record_that_stands_is_noted_by_doctor(place: str) -> None:
    """Nothing said that a commit waits, though writes of others and reshards are refused for it.

    It is no trouble, and `doctor` ends as for a state in which nothing is wrong.
    """
    [found] = _of_tasks(place)
    symptom = _codes(place)["recorded-commit"]
    with open_task(ss.StateRoot.open(place), "0_0", NAMES, backend="memory", **_local(place)):
        pass

    assert (symptom["severity"], symptom["detail"]) == ("note", found.detail)
    assert symptom["path"] == str(found.path)
    assert "recorded-commit" not in _codes(place)


def _local(place: str) -> dict[str, Any]:
    return {} if ss.StateRoot.open(place).storage is None else {"local_directory": "unused"}


@pytest.mark.spec("TSK-22")
def test_a_damaged_record_is_found_by_whatever_looks_for_damage(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bit of a task's record flipped, and `verify` and `doctor` said that nothing was wrong.

    They looked at stores alone, and the task could not be opened: nobody was told before it was to
    take over.
    """
    monkeypatch.chdir(tmp_path)
    _change(place, _flip)
    [finding] = _of_tasks(place)
    told = invoke("verify", place)
    symptom = _codes(place)["task-damaged"]

    assert (finding.check, finding.status) == ("task commit", Status.DAMAGED)
    assert str(finding.path).endswith(_record(place))
    assert isinstance(finding.error, StoreCorruptedError)
    assert "put it back from a copy, or move it away" in finding.detail
    assert told.exit_code == 1
    assert "its checksum does not match" in " ".join(told.stdout.split())
    assert symptom["detail"] == finding.detail
    with pytest.raises(StoreCorruptedError) as refused:
        open_task(ss.StateRoot.open(place), "0_0", NAMES, backend="memory", **_local(place))
    assert str(refused.value) == finding.detail
    assert not _of_store(place, "counts")


def _of_store(place: str, name: str) -> list[str]:
    """Return what `verify` of one store, by the command line, finds to be wrong."""
    result = invoke("verify", place, "--store", name, "--json")
    checks = json.loads(result.stdout)["checks"]
    return [each["check"] for each in checks if each["status"] != "ok"]


@pytest.mark.spec("TSK-22")
def test_a_record_of_a_later_release_is_said_to_be_one(place: str) -> None:
    """It is no damage, and what helps is another release."""
    _change(place, _date_ahead)
    codes = _codes(place)

    assert "has format 99" in codes["newer-format"]["detail"]
    assert "task-damaged" not in codes
    assert "recorded-commit" not in codes


def _date_ahead(data: bytearray) -> None:
    """Give a record the format of a later release."""
    record = unpack_record(bytes(data), "record")
    data[:] = pack_record({**record.content, "format": 99}, [record.data[record.parts_at :]])


@pytest.mark.spec("TSK-22")
@pytest.mark.parametrize("place", ["directory"], indirect=True)
def test_records_of_earlier_releases_and_names_of_stores_are_looked_at(place: str) -> None:
    """A record was a directory; and `written.json` keeps a task from being opened as well."""
    record = Path(_record(place))
    kept = record.with_name("kept")
    record.rename(kept)
    directory_of(kept, ss.StateRoot.open(place), record)
    whole = _of_tasks(place)
    (record / "commit.json").write_text("{")
    (record.parent / "written.json").write_text("{")
    damaged = _of_tasks(place)

    assert [(each.check, each.status) for each in whole] == [("task commit", Status.OK)]
    assert [(each.check, each.status) for each in damaged] == [
        ("task", Status.DAMAGED),
        ("task commit", Status.DAMAGED),
    ]
    assert "move it away" in damaged[0].detail
    assert damaged[0].path == record.parent / "written.json"
