"""Who has what, and whom to ask: values, a table, leases and listeners."""

import json
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StoreCorruptedError,
    UnknownStateStoreError,
    UnreachableInstanceError,
)
from statestores.query.metadata import (
    ApplicationMetadata,
    Candidate,
    Host,
    InstanceMetadata,
    KeyMetadata,
    LeaseMembership,
    MetadataWatch,
    PartitionMetadata,
    Role,
    StaticMembership,
    StoreMetadata,
    choose,
)
from statestores.query.metadata.signs_of_life import SignsOfLife
from statestores_conformance.many_cases import for_each

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)


def instance(name: str, port: int | None, **roles: tuple[Role, int | None]) -> InstanceMetadata:
    """Return an instance with partitions ``p0``, ``p1`` of counts, each in a role with a lag."""
    return InstanceMetadata(
        instance=name,
        host=None if port is None else Host("127.0.0.1", port),
        stores={"counts": StoreMetadata(description=COUNTS.describe(), partitions=2)},
        partitions={
            "counts": {
                int(key[1:]): PartitionMetadata(
                    role=role,
                    current_offset=None if lag is None else 100 - lag,
                    end_offset=None if lag is None else 100,
                )
                for key, (role, lag) in roles.items()
            }
        },
    )


ONE = instance("one", 7001, p0=(Role.ACTIVE, 0), p1=(Role.STANDBY, 30))
TWO = instance("two", 7002, p0=(Role.STANDBY, 5), p1=(Role.ACTIVE, 0))
THREE = instance("three", 7003, p0=(Role.STANDBY, 2), p1=(Role.RESTORING, 90))


@pytest.mark.parametrize("text", ["127.0.0.1:7070", "[::1]:1", "host-1.example:65535"])
def test_a_host_reads_as_it_is_written(text: str) -> None:
    """A host is a name or an address, and a port."""
    assert str(Host.of(text)) == text


@for_each("text", ["", "a", "a:0", "a:70000", "a b:1", "a:1/x", "a@b:1", "::1:80"])
def test_what_is_no_host_is_refused(text: str) -> None:
    """Nothing that could be a part of a URL gets into one."""
    with pytest.raises(InvalidArgumentError):
        Host.of(text)


def test_a_host_is_given_as_one_or_as_text() -> None:
    """A number is not taken for a port, nor a pair for a host."""
    wrong: Any = ("127.0.0.1", 7070)
    with pytest.raises(InvalidTypeError, match="name:port"):
        Host.of(wrong)


def test_an_instance_says_which_partitions_it_has_in_a_role() -> None:
    """Of one store, in the order of their numbers."""
    assert THREE.with_role("counts", Role.STANDBY, Role.RESTORING) == [0, 1]
    assert THREE.with_role("counts", Role.RESTORING) == [1]
    assert THREE.with_role("other", *Role) == []


@for_each("lease_ms", [0, -1, 1.5, True])
def test_a_lease_is_at_least_a_millisecond(lease_ms: Any, tmp_path: Path) -> None:
    """With none, nobody would ever be there."""
    with pytest.raises(InvalidArgumentError, match="lease_ms"):
        LeaseMembership(tmp_path, lease_ms=lease_ms)


@pytest.mark.spec("SRV-1")
def test_a_record_reads_as_it_was_written() -> None:
    """What an instance publishes is what the others know of it, restoring partitions included."""
    data = json.dumps(THREE.as_json()).encode()

    assert InstanceMetadata.from_json(data, "a record") == THREE


@pytest.mark.spec("SRV-1")
@for_each(
    "change",
    [
        {"format": 2},
        {"instance": ""},
        {"host": 7},
        {"partitions": {"counts": {"0": {"role": "king", "current_offset": 1, "end_offset": 1}}}},
        {"partitions": {"counts": {"-1": {"role": "active"}}}},
        {"stores": {"counts": {"specification": {}, "partitions": 0}}},
    ],
)
def test_a_record_of_something_else_is_refused(change: dict[str, Any]) -> None:
    """Nobody guesses at a record of another format."""
    data = json.dumps(ONE.as_json() | change).encode()

    with pytest.raises(StoreCorruptedError):
        InstanceMetadata.from_json(data, "a record")


@pytest.mark.spec("SRV-2")
def test_metadata_says_who_has_a_store_and_a_key() -> None:
    """Kafka's three questions, and the lag of each copy."""
    other = InstanceMetadata(instance="empty", host=Host("127.0.0.1", 7009))
    known = ApplicationMetadata({each.instance: each for each in (TWO, ONE, THREE, other)})
    key = next(
        word
        for word in map(str, range(50))
        if known.query_metadata_for_key(COUNTS, word).partition == 0
    )

    assert [each.instance for each in known.all_metadata()] == ["empty", "one", "three", "two"]
    assert known.all_metadata_for_store("counts") == (ONE, THREE, TWO)
    assert known.query_metadata_for_key(COUNTS, key) == KeyMetadata(
        partition=0,
        active=Host("127.0.0.1", 7001),
        standbys=(Host("127.0.0.1", 7003), Host("127.0.0.1", 7002)),
    )
    assert known.lags("counts")[1] == {"one": 30, "two": 0, "three": 90}
    with pytest.raises(UnknownStateStoreError):
        known.query_metadata_for_key(ss.KeyValue("other", key=ss.utf8), "a")
    wrong: list[Any] = [-1, 2, True, "0", None]
    for partition in wrong:
        with pytest.raises(InvalidArgumentError, match="has the partitions 0 to 1"):
            known.query_metadata_for_partition("counts", partition)


def test_the_same_metadata_are_one_in_a_set() -> None:
    """Whoever remembers what was known, to see what is new, keeps them so."""
    known = {ApplicationMetadata({"one": ONE}), ApplicationMetadata({"one": ONE})}

    assert len(known) == 1
    assert ApplicationMetadata({"one": TWO}) not in known


def test_a_lag_is_known_when_both_ends_are() -> None:
    """An instance that does not know one of them is not up to date, nor is it an error."""
    lags = [
        PartitionMetadata(role=Role.STANDBY, current_offset=current, end_offset=end).offset_lag
        for current, end in [(3, 5), (None, 5), (3, None), (None, None), (5, 3)]
    ]

    assert lags == [2, None, None, None, 0]


def of(name: str, role: Role, lag: int | None = 0, **also: Any) -> Candidate:
    """Return a candidate."""
    also.setdefault("host", Host("127.0.0.1", 7000))
    return Candidate(instance=name, role=role, offset_lag=lag, **also)


A = of("a", Role.ACTIVE)
S5 = of("s5", Role.STANDBY, 5)
S9 = of("s9", Role.STANDBY, 9)
UNKNOWN = of("unknown", Role.STANDBY, None)
PROMOTING = of("promoting", Role.PROMOTING, 1)
RESTORING = of("restoring", Role.RESTORING, 3)
MUTE = of("mute", Role.ACTIVE, host=None)
LOCAL = of("local", Role.STANDBY, 5, host=None, is_local=True)
ZOMBIE = of("zombie", Role.ACTIVE, current_offset=3)
NEWER = of("newer", Role.ACTIVE, current_offset=8)


@pytest.mark.spec("SRV-4")
@for_each(
    ("candidates", "options", "order"),
    [
        ([S5, A], {}, "a"),
        ([S5, UNKNOWN, PROMOTING], {}, ""),
        ([UNKNOWN, S9, S5, A], {"include_stale": True}, "a s5 s9 unknown"),
        ([S9, PROMOTING, S5], {"include_stale": True}, "promoting s5 s9"),
        ([S9, S5, A], {"include_stale": True, "max_lag": 5}, "a s5"),
        ([UNKNOWN, S9, S5], {"include_stale": True, "max_lag": 4}, "unknown"),
        ([RESTORING, S9], {"include_stale": True}, "s9"),
        ([MUTE, S9], {"include_stale": True}, "s9"),
        ([S5, LOCAL], {"include_stale": True}, "local s5"),
        ([ZOMBIE, NEWER], {}, "newer zombie"),
        ([S5, A], {"max_lag": 0}, "a"),
        ([], {"include_stale": True}, ""),
    ],
)
def test_whom_to_ask(candidates: list[Candidate], options: dict[str, Any], order: str) -> None:
    """The table of the specification."""
    choice = choose(candidates, **options)

    assert " ".join(each.instance for each in choice.order) == order
    assert len(choice.order) + len(choice.refused) == len(candidates)
    assert all(reason for _, reason in choice.refused)


class Clock:
    """A monotonic clock that goes by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.seconds


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


@pytest.mark.spec("SRV-3")
def test_of_listed_hosts_those_are_there_that_answer() -> None:
    """A list knows hosts only: what they have, they are asked."""
    asked: list[str] = []

    def ask(host: Host) -> InstanceMetadata:
        asked.append(str(host))
        if host == TWO.host:
            return TWO
        raise UnreachableInstanceError(f"{host} does not answer")

    members = StaticMembership(["127.0.0.1:7001", "127.0.0.1:7002"], ask)
    assert members.instances() == {"two": TWO}
    members.publish(ONE)
    asked.clear()
    assert members.instances() == {"one": ONE, "two": TWO}
    assert asked == ["127.0.0.1:7002"]  # nobody asks itself
    members.leave("one")
    assert members.instances() == {"two": TWO}


@pytest.mark.spec("SRV-5")
def test_listeners_are_told_of_changes_of_place_alone(tmp_path: Path) -> None:
    """Lags change all the time, and are no news."""
    members = LeaseMembership(tmp_path)
    watch = MetadataWatch(members)
    told: list[list[str]] = []
    end = watch.listen(lambda known: told.append(sorted(known.instances)))
    watch.look()
    members.publish(ONE)
    watch.look()
    members.publish(instance("one", 7001, p0=(Role.ACTIVE, 0), p1=(Role.STANDBY, 31)))
    watch.look()
    members.publish(instance("one", 7001, p0=(Role.ACTIVE, 0), p1=(Role.ACTIVE, 0)))
    watch.look()
    end()
    members.leave("one")
    watch.look()

    assert told == [[], ["one"], ["one"]]


@pytest.mark.spec("SRV-5")
def test_a_listener_that_fails_keeps_nobody_from_the_news(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the watch goes on."""
    members = LeaseMembership(tmp_path)
    watch = MetadataWatch(members)
    told: list[int] = []

    def failing(known: ApplicationMetadata) -> None:
        raise ZeroDivisionError

    watch.listen(failing)
    watch.listen(lambda known: told.append(len(known.instances)))
    watch.look()
    members.publish(ONE)
    watch.look()

    assert told == [0, 1]
    assert "a listener of metadata failed" in caplog.text


class _SlowMembers:
    """What two looks find: the first is held up until the second is over."""

    def __init__(self) -> None:
        self.is_asked, self.may_go_on = Event(), Event()
        self._asked = 0

    def publish(self, instance: InstanceMetadata) -> None:
        """Say nothing."""

    def leave(self, instance: str) -> None:
        """Say nothing."""

    def instances(self) -> dict[str, InstanceMetadata]:
        """Return one instance, late; after that both."""
        self._asked += 1
        if self._asked > 1:
            return {"one": ONE, "two": TWO}
        self.is_asked.set()
        self.may_go_on.wait(30)
        return {"one": ONE}


@pytest.mark.spec("SRV-5")
def test_a_late_look_takes_nothing_back() -> None:
    """A query that looked for a successor was given, at times, the dead instance again.

    Whoever retries a query looks, beside the thread that always does. A look that was slow to find
    out put what it had found over what a later one had, and told listeners so: they heard of
    instances, then of their absence, in the wrong order.
    """
    members = _SlowMembers()
    watch = MetadataWatch(members)
    told: list[list[str]] = []
    watch.listen(lambda known: told.append(sorted(known.instances)))
    slow = Thread(target=watch.look)
    slow.start()
    members.is_asked.wait(30)
    watch.look()
    members.may_go_on.set()
    slow.join()

    assert sorted(watch.now.instances) == ["one", "two"]
    assert told == [["one", "two"]]


@pytest.mark.spec("SRV-5")
def test_news_are_told_in_order_also_by_a_listener_that_looks(tmp_path: Path) -> None:
    """One that looks itself, or ends the watch, is told everything, and waits for nobody.

    It is told by the watch's own thread: nobody else looks.
    """
    members = LeaseMembership(tmp_path)
    watch = MetadataWatch(members, interval_s=0.001)
    told: list[list[str]] = []
    is_told = Event()

    def looking(known: ApplicationMetadata) -> None:
        told.append(sorted(known.instances))
        if len(told) == 1:
            members.publish(ONE)
            watch.look()
            told.append(["told"])
        else:
            watch.close()
            is_told.set()

    watch.listen(looking)
    watch.start()
    is_told.wait(30)
    watch.close()

    assert told == [[], ["told"], ["one"]]
