"""Calls of the client that may not come back, although they were told how long to take.

librdkafka 2.16 loses `send_offsets_to_transaction` when the coordinator goes away at the wrong
moment: it waits without an end, and the instance would keep its partitions and do nothing. So such
calls are made on a thread of their own, which is left to its fate when it is late.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread


class CallStuckError(Exception):
    """A call has not come back; the thread has it still."""


class PatientCalls:
    """One thread for calls, one after the other. The thread that waits does nothing meanwhile."""

    def __init__(self, name: str) -> None:
        """Prepare; the thread begins with the first call."""
        self._name = name
        self._asked: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._answers: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._is_stuck = False

    def do(self, call: Callable[[], object], seconds: float) -> None:
        """Call, and wait up to *seconds*.

        Raises:
            CallStuckError: It has not come back, or one before it has not.
            BaseException: What the call has raised.
        """
        if self._is_stuck:
            raise CallStuckError
        if self._thread is None:
            work = (self._asked, self._answers)
            self._thread = Thread(target=_work, args=work, name=self._name, daemon=True)
            self._thread.start()
        self._asked.put(call)
        try:
            raised = self._answers.get(timeout=seconds)
        except Empty:
            self._is_stuck = True
            raise CallStuckError from None
        if raised is not None:
            raise raised

    def end(self) -> None:
        """Have the thread end, once it is back."""
        self._asked.put(None)


def _work(
    asked: SimpleQueue[Callable[[], object] | None], answers: SimpleQueue[BaseException | None]
) -> None:
    while (call := asked.get()) is not None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            answers.put(error)
        else:
            answers.put(None)
        del call  # it holds the producer
