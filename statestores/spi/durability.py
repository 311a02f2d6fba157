"""What a commit survives."""

from enum import Enum


class Durability(Enum):
    """What a commit survives (COM-12). There is nothing below `PROCESS_CRASH`."""

    POWER_LOSS = "power-loss"
    """The commit waits for the disk: it survives a power failure, given assumption ASM-1."""

    PROCESS_CRASH = "process-crash"
    """The commit reaches the operating system: it survives ``kill -9``. A power failure may lose
    the last commits, whole ones, latest first."""
