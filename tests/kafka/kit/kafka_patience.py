"""The time for which a cluster is waited for, over once its client has said what is wrong."""

import time


class Patience:
    """Stands in for the module `time` where a cluster is asked; no test waits for a minute."""

    def __init__(self) -> None:
        """Begin."""
        self._now = 0.0

    def end(self, error: object) -> None:
        """Have no more time: an ``error_cb`` of the client."""
        self._now = 1e9

    def monotonic(self) -> float:
        """Return the time."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)
