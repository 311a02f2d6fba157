"""Several instances asked at the same time, on few threads (SRV-24)."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from statestores.spi.closing import Closing

T = TypeVar("T")

AT_ONCE = 16
"""How many questions wait for an answer at the same time, beside those of callers themselves."""


class SideBySide(Closing):
    """Threads for questions. Any thread may use it; what is asked here asks nothing here."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        """Use up to *at_once* threads, which begin when they are needed."""
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="ask")

    def answers(self, questions: Sequence[Callable[[], T]]) -> list[T]:
        """Return what each of *questions* returns, in their order.

        The caller's own thread does the first of them, and whatever finds no thread: so one
        question alone costs no thread, and everything goes on where all threads are waiting.

        Raises:
            StateStoreError: What the first one raised that failed. The others are not waited for.
        """
        first, *others = questions
        asked = [self._begun(each) for each in others]
        try:
            found = {0: first()}
            for at, (future, each) in enumerate(zip(asked, others, strict=True), 1):
                if future.cancel():  # no thread has taken it
                    found[at] = each()
            begun = {at: future for at, future in enumerate(asked, 1) if at not in found}
            over, _ = wait(begun.values(), return_when=FIRST_EXCEPTION)
            for future in over:
                future.result()  # raises what failed
            found |= {at: future.result() for at, future in begun.items()}
            return [found[at] for at in range(len(questions))]
        finally:
            for future in asked:
                future.cancel()

    def _begun(self, question: Callable[[], T]) -> "Future[T]":
        try:
            return self._threads.submit(question)
        except RuntimeError:  # it is closed: the caller does it
            return Future()

    def close(self) -> None:
        """End the threads; what is being asked is not waited for. Idempotent."""
        self._threads.shutdown(wait=False, cancel_futures=True)
