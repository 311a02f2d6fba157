"""The thread that looks who is there: when it looks, whom it tells, and how it ends."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, Thread

import pytest
from known_instances import ONE, TWO, instance

from statestores.errors import (
    InvalidStateStoreError,
    StorageError,
)
from statestores.query.metadata import (
    ApplicationMetadata,
    Host,
    InstanceMetadata,
    LeaseMembership,
    MetadataWatch,
    Role,
    StaticMembership,
)

_PATIENCE_SECONDS = 30.0


class Members:
    """Who is there, as the test has it."""

    def __init__(self) -> None:
        self.now: dict[str, InstanceMetadata] = {"one": ONE}
        self.looks = 0
        self.before_answer: Callable[[], object] = lambda: None

    def publish(self, instance: InstanceMetadata) -> None:
        """Know nothing more."""

    def leave(self, instance: str) -> None:
        """Know nothing less."""

    def instances(self) -> Mapping[str, InstanceMetadata]:
        """Return them, and count the look."""
        self.looks += 1
        self.before_answer()
        return dict(self.now)


def threads() -> list[Thread]:
    """Return those of watches."""
    return [each for each in threading.enumerate() if each.name == "metadata-watch"]


@pytest.mark.spec("SRV-2")
def test_nobody_is_known_before_the_first_look() -> None:
    """A look returns what is known from then on."""
    watch = MetadataWatch(Members())
    assert watch.now == ApplicationMetadata({})

    assert watch.look() == watch.now == ApplicationMetadata({"one": ONE})


@pytest.mark.spec("SRV-2")
def test_a_look_that_is_late_returns_what_a_later_one_has_found() -> None:
    """A query goes on with it: with nothing it had failed."""
    members = Members()
    watch = MetadataWatch(members)

    def look_meanwhile() -> None:
        members.before_answer = lambda: None
        watch.look()

    members.before_answer = look_meanwhile

    assert watch.look() == ApplicationMetadata({"one": ONE})


@pytest.mark.spec("SRV-2")
def test_one_thread_looks_and_waits_between_two_looks() -> None:
    """It would take a processor, and ask a server without end; and it keeps no process alive."""
    members, again = Members(), Event()
    first = Event()
    members.before_answer = lambda: again.set() if first.is_set() else first.set()
    watch = MetadataWatch(members, interval_s=3_600)
    watch.start()
    watch.start()
    assert first.wait(_PATIENCE_SECONDS)
    assert not again.wait(0.3)

    assert [each.daemon for each in threads()] == [True]
    watch.close()
    watch.close()
    assert threads() == []


@pytest.mark.spec("SRV-2")
def test_a_close_waits_for_a_look() -> None:
    """Whoever closes what the look asks next would close it under the thread."""
    members, begun, go_on = Members(), Event(), Event()

    def answer_late() -> None:
        begun.set()
        go_on.wait(_PATIENCE_SECONDS)

    members.before_answer = answer_late
    watch = MetadataWatch(members)
    watch.start()
    assert begun.wait(_PATIENCE_SECONDS)
    closer = Thread(target=watch.close)
    closer.start()
    closer.join(0.2)
    waits = closer.is_alive()
    go_on.set()
    closer.join(_PATIENCE_SECONDS)

    assert (waits, closer.is_alive(), threads()) == (True, False, [])


@pytest.mark.spec("SRV-2")
def test_a_listener_may_close_the_watch() -> None:
    """It is the thread itself that closes then, which cannot wait for its own end."""
    members, failed, closed = Members(), [], Event()
    watch = MetadataWatch(members)

    def close(_: ApplicationMetadata) -> None:
        try:
            watch.close()
        except RuntimeError as error:
            failed.append(error)
        closed.set()

    watch.listen(close)
    watch.start()
    assert closed.wait(_PATIENCE_SECONDS)
    end = time.monotonic() + _PATIENCE_SECONDS
    while threads() and time.monotonic() < end:
        time.sleep(0.01)

    assert (failed, threads()) == ([], [])
    watch.close()


@pytest.mark.spec("SRV-3")
def test_a_listed_host_that_answers_with_damage_is_no_host_that_is_not_there() -> None:
    """It is there, and nobody should go on as if it were not."""

    def ask(host: Host) -> InstanceMetadata:
        if host.port == 1:
            raise InvalidStateStoreError("not yet")
        raise StorageError("its disk is broken")

    assert StaticMembership(["h:1"], ask).instances() == {}
    with pytest.raises(StorageError, match="its disk is broken"):
        StaticMembership(["h:1", "h:2"], ask).instances()


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
