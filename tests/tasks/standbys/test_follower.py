"""The thread of a standby: what ends it, what does not, and how often it looks."""

import math
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from statestores.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    OffsetOutOfRangeError,
    StateStoreError,
    StoreMismatchError,
)
from statestores.tasks.follower import FOLLOW_INTERVAL_S, Follower

PATIENCE_S = 60.0


@pytest.fixture
def follower() -> Iterator[Follower]:
    """Return one that has not begun, and is stopped at the end."""
    found = Follower("standby-counts-0")
    yield found
    found.stop()


class _Polls:
    """Raises what it is told, one after the other, and then says that it is through."""

    def __init__(self, *errors: StateStoreError | None) -> None:
        self._errors = list(errors)
        self.failures: list[StateStoreError | None] = []
        self.names: set[str] = set()
        self.through = threading.Event()

    def of(self, follower: Follower) -> Any:
        def poll() -> None:
            self.failures.append(follower.failure)
            self.names.add(threading.current_thread().name)
            if not self._errors:
                self.through.set()
                return
            error = self._errors.pop(0)
            if error is not None:
                raise error

        return poll


@pytest.mark.spec("STB-2")
def test_what_may_go_away_is_told_and_tried_again(follower: Follower) -> None:
    """A deleted beginning until there is a snapshot; an error that can be tried again is none."""
    gone = OffsetOutOfRangeError("deleted")
    polls = _Polls(gone, None, InvalidStateStoreError("not now"))
    follower.start(polls.of(follower), 0.0)
    assert polls.through.wait(PATIENCE_S)

    assert polls.failures[:4] == [None, gone, None, None]
    assert follower.is_running
    assert polls.names == {"standby-counts-0"}
    follower.stop()
    assert (follower.is_running, follower.is_started) == (False, False)


@pytest.mark.spec("STB-2")
def test_what_does_not_go_away_ends_it(follower: Follower) -> None:
    """It is started, and runs no more; stopped and started again, it has no failure."""
    ends = StoreMismatchError("of another store")
    follower.start(_Polls(ends).of(follower), 0)
    thread = follower._thread
    assert thread is not None
    assert thread.daemon
    thread.join(PATIENCE_S)

    assert (follower.failure, follower.is_running, follower.is_started) == (ends, False, True)
    follower.stop()
    again = _Polls()
    follower.start(again.of(follower), 0.0)
    assert again.through.wait(PATIENCE_S)
    assert follower.failure is None


@pytest.mark.parametrize("interval_s", [-0.1, math.inf, math.nan, True, "1", None])
def test_an_interval_is_a_number_of_seconds(follower: Follower, interval_s: Any) -> None:
    """Others are refused before anything is started."""
    with pytest.raises(InvalidArgumentError, match="number of seconds from 0, got"):
        follower.start(lambda: None, interval_s)

    assert not follower.is_started
    assert follower.interval_s == FOLLOW_INTERVAL_S


def test_it_waits_for_its_interval(follower: Follower) -> None:
    """It does not look before, and is stopped while it waits."""
    polls = _Polls()
    follower.start(polls.of(follower), 3_600)
    assert follower.interval_s == 3_600
    follower.stop()

    assert polls.failures == []


def test_a_stop_waits_for_the_poll_that_is_under_way(follower: Follower) -> None:
    """Whoever closes the copy next would take it from under the poll."""
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def poll() -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        done.append("polled")

    follower.start(poll, 0.0)
    assert begun.wait(PATIENCE_S)
    threading.Timer(0.2, go_on.set).start()
    follower.stop()

    assert done[:1] == ["polled"]


@pytest.mark.spec("STB-2")
def test_what_begins_again_has_not_failed_yet(follower: Follower) -> None:
    """The failure of before was shown until the first poll, an interval later."""
    polls = _Polls(StoreMismatchError("ahead"))
    follower.start(polls.of(follower), 0.0)
    thread = follower._thread
    assert thread is not None
    thread.join(PATIENCE_S)
    follower.stop()
    assert isinstance(follower.failure, StoreMismatchError)
    follower.start(polls.of(follower), 3_600.0)

    assert follower.failure is None
