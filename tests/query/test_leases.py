"""Records of instances in a directory: what is read, what is refused, and what disks do to them."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from known_instances import ONE, TWO, Clock

from statestores.errors import (
    InvalidArgumentError,
    StorageError,
)
from statestores.query.metadata import (
    InstanceMetadata,
    LeaseMembership,
    leases,
)
from statestores.query.metadata.signs_of_life import SignsOfLife
from statestores_conformance.many_cases import for_each


@pytest.mark.spec("SRV-3")
def test_the_directory_is_made_when_the_first_instance_is_there(tmp_path: Path) -> None:
    """Whoever begins first need not be whoever makes the root."""
    members = LeaseMembership(tmp_path / "not" / "yet")
    assert members.instances() == {}
    members.publish(ONE)

    assert members.instances() == {"one": ONE}


@pytest.mark.spec("SRV-3")
def test_a_disk_that_refuses_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them can be tried again at the next sign of life."""
    (tmp_path / "file").write_text("")
    members = LeaseMembership(tmp_path / "file")
    with pytest.raises(StorageError, match=r"cannot write .*one.json"):
        members.publish(ONE)
    with pytest.raises(StorageError, match=r"cannot remove .*one.json"):
        members.leave("one")

    def refuse(path: Path, pattern: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "glob", refuse)
    with pytest.raises(StorageError, match=r"cannot read .*: Permission denied"):
        members.instances()


@pytest.mark.spec("SRV-3")
def test_a_record_that_cannot_be_removed_is_our_error(tmp_path: Path) -> None:
    """A stranger's directory is in its place; whoever publishes has said what it is by then."""
    clock = Clock()
    dead, alive = LeaseMembership(tmp_path), LeaseMembership(tmp_path, clock=clock)
    dead.publish(ONE)
    alive.publish(TWO)
    (tmp_path / "@serving" / ".one.json.gone").mkdir()
    clock.seconds += 1_000
    with pytest.raises(StorageError, match=r"cannot remove .*one.json"):
        alive.publish(TWO)

    assert set(LeaseMembership(tmp_path).instances()) == {"one", "two"}


@pytest.mark.spec("SRV-3")
def test_the_forgotten_are_looked_for_once_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sign of life would read every record of everybody."""
    clock = Clock()
    clock.seconds = 0.0
    members = LeaseMembership(tmp_path, lease_ms=1_000_000, clock=clock)
    looks: list[float] = []
    monkeypatch.setattr(members, "instances", lambda: looks.append(clock.seconds))
    for clock.seconds in (0.0, 0.0, 999.5, 1_000.0, 1_000.5, 1_999.5, 2_000.5):
        members.publish(ONE)

    assert looks == [0.0, 1_000.0, 2_000.5]


@pytest.mark.spec("SRV-3")
def test_an_instance_is_believed_for_a_whole_lease() -> None:
    """Half a second less, of a thousand, would take it from whoever asks."""
    clock = Clock()
    seen = SignsOfLife(lease_ms=1_000_000, clock=clock)
    seen.see(7, ONE)
    clock.seconds += 999.5

    assert set(seen.alive()) == {"one"}


@pytest.mark.spec("SRV-3")
@pytest.mark.parametrize("name", ["two.json", ".one.json", "one.json.json"])
def test_a_record_under_another_name_is_that_of_nobody(tmp_path: Path, name: str) -> None:
    """A copy of a record outlives its instance: nobody removes it, or gives it signs of life."""
    members = LeaseMembership(tmp_path)
    members.publish(ONE)
    records = tmp_path / "@serving"
    (records / "one.json").rename(records / name)

    assert members.instances() == {}


@pytest.mark.spec("SRV-3")
def test_a_hidden_record_is_that_of_nobody(tmp_path: Path) -> None:
    """Also where its instance is called so: those are files that are being written or removed."""
    hidden = InstanceMetadata(instance=".one").as_json()
    records = tmp_path / "@serving"
    records.mkdir()
    (records / ".one.json").write_text(json.dumps({"beat": 1, "record": hidden}))

    assert LeaseMembership(tmp_path).instances() == {}


@pytest.mark.spec("SRV-3")
def test_a_record_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the memory of everybody who looks; one of the size that may be is read."""
    members = LeaseMembership(tmp_path)
    members.publish(ONE)
    most = (tmp_path / "@serving" / "one.json").stat().st_size
    monkeypatch.setattr(leases, "_MAX_RECORD_BYTES", most)
    assert set(members.instances()) == {"one"}
    monkeypatch.setattr(leases, "_MAX_RECORD_BYTES", most - 1)

    assert members.instances() == {}


@pytest.mark.spec("SRV-3")
def test_a_record_that_goes_while_it_is_read_is_that_of_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at its size and the look into it its instance has left."""
    members = LeaseMembership(tmp_path)
    members.publish(ONE)
    monkeypatch.setattr(leases, "read_fields", lambda file: None)

    assert members.instances() == {}


@for_each("lease_ms", [0, -1, 1.5, True])
def test_a_lease_is_at_least_a_millisecond(lease_ms: Any, tmp_path: Path) -> None:
    """With none, nobody would ever be there."""
    with pytest.raises(InvalidArgumentError, match="lease_ms"):
        LeaseMembership(tmp_path, lease_ms=lease_ms)


@pytest.mark.spec("SRV-3")
def test_a_lease_is_over_once_it_has_passed() -> None:
    """To the millisecond: whose lease ends now is dead, and silent a moment after the last one."""
    clock = Clock()
    clock.seconds = 0.0
    seen = SignsOfLife(lease_ms=1, clock=clock)
    seen.see(7, ONE)
    told = []
    for clock.seconds in (0.0009, 0.001, 0.003, 0.003001):
        told.append((sorted(seen.alive()), seen.silent(3)))

    assert told == [(["one"], {}), ([], {}), ([], {}), ([], {"one": 7})]


@pytest.mark.spec("SRV-3")
def test_an_instance_that_begins_anew_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first beats are others than those before it died, and each one is another.

    A mutant counted from 1 again, so a reader saw the beat that it knew: dead for as long as that.
    """
    now_ns = 1_700_000_000_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    before = SignsOfLife()
    beats = [before.next_beat("one") for _ in range(3)]
    now_ns += 1_000_000_000
    again = SignsOfLife()
    beats += [again.next_beat("one") for _ in range(3)]

    assert beats == sorted(set(beats))


@pytest.mark.spec("SRV-3")
def test_a_lease_ends_without_signs_of_life(tmp_path: Path) -> None:
    """Each looks with a clock of its own: those of machines need not agree."""
    clock = Clock()
    writer, reader = LeaseMembership(tmp_path), LeaseMembership(tmp_path, clock=clock)
    writer.publish(ONE)
    writer.publish(TWO)
    assert set(reader.instances()) == {"one", "two"}
    clock.seconds += 4.9
    writer.publish(TWO)
    assert set(reader.instances()) == {"one", "two"}
    clock.seconds += 0.2

    assert reader.instances() == {"two": TWO}

    writer.publish(ONE)
    assert set(reader.instances()) == {"one", "two"}
    writer.leave("two")
    writer.leave("two")
    assert set(reader.instances()) == {"one"}


@pytest.mark.spec("SRV-3")
def test_records_of_the_dead_are_removed_after_a_hundred_leases(tmp_path: Path) -> None:
    """By whoever publishes; each process that had ever served left a file for ever.

    One that was stopped for so long, and goes on, is there again.
    """
    clock = Clock()
    dead, alive = LeaseMembership(tmp_path), LeaseMembership(tmp_path, clock=clock)
    dead.publish(ONE)
    records = tmp_path / "@serving"
    (records / ".one.json.tmp").write_text("torn")
    for _ in range(100):
        alive.publish(TWO)
        clock.seconds += 5
    kept = sorted(file.name for file in records.iterdir())
    clock.seconds += 5
    alive.publish(TWO)
    clock.seconds += 5
    alive.publish(TWO)
    left = sorted(file.name for file in records.iterdir())
    dead.publish(ONE)

    assert kept == [".one.json.tmp", "one.json", "two.json"]
    assert left == ["two.json"]
    assert set(alive.instances()) == {"one", "two"}


@pytest.mark.spec("SRV-3")
def test_a_record_that_changes_while_it_is_removed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was looked at, then published anew, and then removed.

    With it went the file in which its instance was writing the next one, whose publishing failed.
    """
    clock = Clock()
    slow, alive = LeaseMembership(tmp_path), LeaseMembership(tmp_path, clock=clock)
    slow.publish(ONE)
    alive.publish(TWO)
    clock.seconds += 1_000
    looked = alive.instances

    def look() -> object:
        found = looked()
        slow.publish(ONE)
        (tmp_path / "@serving" / ".one.json.tmp").write_text("the next one")
        return found

    monkeypatch.setattr(alive, "instances", look)
    alive.publish(TWO)
    monkeypatch.undo()

    assert set(alive.instances()) == {"one", "two"}
    left = {file.name for file in (tmp_path / "@serving").iterdir()}
    assert left == {".one.json.tmp", "one.json", "two.json"}


@pytest.mark.spec("SRV-3")
@pytest.mark.parametrize("text", ["", "{", "[]", '{"beat": 1, "record": {}}', "\x00" * 10])
def test_a_record_that_cannot_be_read_hides_no_other(tmp_path: Path, text: str) -> None:
    """One bad file does not take an application's queries down."""
    members = LeaseMembership(tmp_path)
    members.publish(ONE)
    (tmp_path / "@serving" / "bad.json").write_text(text)
    (tmp_path / "@serving" / "someone-else.json").write_text(
        (tmp_path / "@serving" / "one.json").read_text()
    )

    assert members.instances() == {"one": ONE}


@for_each("name", ["", "../x", ".hidden", "a/b", "x" * 201])
def test_a_name_that_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    """An instance does not choose where its record lies."""
    with pytest.raises(InvalidArgumentError):
        LeaseMembership(tmp_path).publish(InstanceMetadata(instance=name))
