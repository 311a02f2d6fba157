"""The machine's clock: the only one that a store reads, and only where values expire by it."""

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]
"""Returns the time in milliseconds since the epoch."""


def wall_clock_ms() -> int:
    """Return the machine's time in milliseconds since the epoch (ASM-12)."""
    return time.time_ns() // 1_000_000
