"""The thread that looks who is there: when it looks, whom it tells, and how it ends."""

import threading
import time
from collections.abc import Callable, Mapping
from threading import Event, Thread

import pytest

from statestores.errors import InvalidStateStoreError, StorageError
from statestores.query.metadata import (
    ApplicationMetadata,
    Host,
    InstanceMetadata,
    MetadataWatch,
    StaticMembership,
)

ONE = InstanceMetadata(instance="one", host=Host("127.0.0.1", 7001))
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
