"""Whether nothing is left to do: every thread has looked, and nothing was appended since."""

from threading import Lock


class IdleWatch:
    """What the threads of a runner know of each other."""

    def __init__(self, threads: int) -> None:
        """Watch so many threads, numbered from 0."""
        self._lock = Lock()
        self._seen: list[int | None] = [None] * threads

    def busy(self, thread: int) -> None:
        """Say that *thread* has found something to do."""
        with self._lock:
            self._seen[thread] = None

    def idle(self, thread: int, appends: int) -> None:
        """Say that *thread* has nothing to do or to commit, as of so many *appends*."""
        with self._lock:
            self._seen[thread] = appends

    def is_over(self, appends: int) -> bool:
        """Return whether no thread has anything to do, with so many *appends* by now."""
        with self._lock:
            return all(seen == appends for seen in self._seen)
