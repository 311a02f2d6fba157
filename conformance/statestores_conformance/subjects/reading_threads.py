"""Threads that read again and again while the test writes."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

READERS = 3
"""How many threads read."""

_SWITCH_SECONDS = 1e-5
"""How long a thread runs before another may: short, so that few writes meet many reads."""


@contextmanager
def reading_threads(read: Callable[[], None]) -> Iterator[None]:
    """Repeat *read* in threads during the block, each at least once; what it raises is raised."""
    done = threading.Event()

    def repeat() -> None:
        read()
        while not done.is_set():
            read()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    with ThreadPoolExecutor(READERS) as threads:
        readers = [threads.submit(repeat) for _ in range(READERS)]
        try:
            yield
        finally:
            done.set()
            sys.setswitchinterval(interval)
        for reader in readers:
            reader.result()
