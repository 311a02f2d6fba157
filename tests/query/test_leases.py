"""Records of instances in a directory: what is read, what is refused, and what disks do to them."""

import json
from pathlib import Path

import pytest

from statestores.errors import StorageError
from statestores.query.metadata import Host, InstanceMetadata, LeaseMembership, leases
from statestores.query.metadata.signs_of_life import SignsOfLife

ONE = InstanceMetadata(instance="one", host=Host("127.0.0.1", 7001))
TWO = InstanceMetadata(instance="two", host=Host("127.0.0.1", 7002))


class Clock:
    """A monotonic clock that goes by hand."""

    seconds = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.seconds


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
