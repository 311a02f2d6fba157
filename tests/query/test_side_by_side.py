"""Questions side by side: bounded, in order, and none holds up what another has raised."""

from threading import Event, Thread, get_ident

import pytest

from statestores.errors import StorageError
from statestores.query.side_by_side import SideBySide

_PATIENCE_SECONDS = 60.0


@pytest.mark.spec("SRV-24")
def test_a_failure_waits_for_nobody() -> None:
    """It is raised while another question still has no answer."""
    hangs = Event()

    def fail() -> None:
        raise StorageError("refused")

    def hang() -> None:
        assert hangs.wait(_PATIENCE_SECONDS)

    begun = Event()

    def hang_in_a_thread() -> None:
        begun.set()
        hang()

    def wait_for_the_other() -> None:
        assert begun.wait(_PATIENCE_SECONDS)

    with SideBySide(2) as asking:
        with pytest.raises(StorageError, match="refused"):
            asking.answers([wait_for_the_other, hang_in_a_thread, fail])
        assert not hangs.is_set()
        hangs.set()


@pytest.mark.spec("SRV-24")
def test_where_all_threads_wait_the_caller_asks_itself() -> None:
    """Another caller's questions take all threads, and nothing of that is waited for."""
    hangs, begun = Event(), Event()

    def hang() -> int:
        begun.set()
        assert hangs.wait(_PATIENCE_SECONDS)
        return 1

    with SideBySide(1) as asking:
        found: list[list[int]] = []
        slow = Thread(target=lambda: found.append(asking.answers([lambda: 0, hang])))
        slow.start()
        assert begun.wait(_PATIENCE_SECONDS)
        assert asking.answers([get_ident] * 5) == [get_ident()] * 5
        hangs.set()
        slow.join()

    assert found == [[0, 1]]
    assert asking.answers([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]


@pytest.mark.spec("SRV-24")
def test_closing_waits_for_no_question() -> None:
    """A server that did not answer kept the process from ending."""
    hangs, begun, closed = Event(), Event(), Event()

    def hang() -> None:
        begun.set()
        assert hangs.wait(_PATIENCE_SECONDS)

    def close() -> None:
        asking.close()
        asking.close()
        closed.set()

    asking = SideBySide(2)
    caller = Thread(target=asking.answers, args=([hang, hang],))
    caller.start()
    assert begun.wait(_PATIENCE_SECONDS)
    Thread(target=close, daemon=True).start()
    is_closed = closed.wait(_PATIENCE_SECONDS / 2)
    hangs.set()
    caller.join()

    assert is_closed
    assert asking.answers([lambda: 1, lambda: 2]) == [1, 2]  # by the caller itself


@pytest.mark.spec("SRV-24")
def test_what_has_not_begun_when_one_fails_is_not_asked() -> None:
    """Nobody wants the answer any more."""
    go_on, begun = Event(), Event()
    asked: list[str] = []

    def hang() -> None:
        begun.set()
        assert go_on.wait(_PATIENCE_SECONDS)

    def fail() -> None:
        assert begun.wait(_PATIENCE_SECONDS)
        raise StorageError("refused")

    with SideBySide(1) as asking:
        with pytest.raises(StorageError, match="refused"):
            asking.answers([fail, hang, lambda: asked.append("too late")])
        go_on.set()
        asking._threads.submit(lambda: None).result(_PATIENCE_SECONDS)  # it comes after the others

    assert asked == []


@pytest.mark.spec("SRV-24")
def test_a_close_waits_for_no_answer() -> None:
    """An instance that hangs would hold up the end of a program."""
    hangs, begun = Event(), Event()

    def hang() -> None:
        begun.set()
        assert hangs.wait(_PATIENCE_SECONDS)

    def wait() -> None:
        assert begun.wait(_PATIENCE_SECONDS)

    asking = SideBySide(1)
    caller = Thread(target=lambda: asking.answers([wait, hang]))
    caller.start()
    assert begun.wait(_PATIENCE_SECONDS)
    closer = Thread(target=asking.close)
    closer.start()
    closer.join(10)
    is_closed = not closer.is_alive()
    hangs.set()
    closer.join()
    caller.join(_PATIENCE_SECONDS)

    assert is_closed
