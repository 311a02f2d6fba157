"""The thread that a standby follows its changelog on."""

import math
import threading
from collections.abc import Callable

from statestores.begun_partitions import GonePartitionError
from statestores.errors import InvalidArgumentError, OffsetOutOfRangeError, StateStoreError

FOLLOW_INTERVAL_S = 0.1
"""How long a following standby waits before it looks for new changes, by default."""


class Follower:
    """Polls, now and again. One thread starts and stops it; any may ask how it is."""

    def __init__(self, name: str) -> None:
        """Follow on a thread of this *name*."""
        self._name = name
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.interval_s = FOLLOW_INTERVAL_S
        """How long it waits between two polls."""
        self.failure: StateStoreError | None = None
        """What keeps it from going on, or has ended it; ``None`` while nothing does."""

    @property
    def is_started(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._thread is not None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither `stop` nor a `failure` has ended it."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def start(self, poll: Callable[[], object], interval_s: float) -> None:
        """Begin to *poll* every *interval_s* seconds.

        Requires: it is not `is_started`.

        Raises:
            InvalidArgumentError: That is no number from 0.
        """
        if type(interval_s) not in {int, float} or not 0 <= interval_s < math.inf:
            raise InvalidArgumentError(
                f"interval_s must be a number of seconds from 0, got {interval_s!r}"
            )
        self.failure = None
        self.interval_s = interval_s
        self._stopping.clear()
        self._thread = threading.Thread(
            target=self._follow, args=(poll,), name=self._name, daemon=True
        )
        self._thread.start()

    def _follow(self, poll: Callable[[], object]) -> None:
        while not self._stopping.wait(self.interval_s):
            try:
                poll()
            except (OffsetOutOfRangeError, GonePartitionError) as error:
                self.failure = error  # until there is a snapshot, or the disk is mounted again
            except StateStoreError as error:
                if error.retryable:
                    continue
                self.failure = error
                return
            else:
                self.failure = None

    def stop(self) -> None:
        """End, and wait for the poll that is under way. Idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
