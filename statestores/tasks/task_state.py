"""What a task is doing in a process: how far it is from being its owner's to use."""

from enum import Enum


class TaskState(Enum):
    """The state of one task, each published as soon as it is reached (TSK-12)."""

    RESTORING = "restoring"
    """Active, and its stores are being opened and brought up to their changelogs."""

    PROMOTING = "promoting"
    """Active, and its standbys are taking over. Until then they answer stale reads."""

    RUNNING = "running"
    """Active, with everything there is: its owner processes, and queries are answered."""

    STANDBY = "standby"
    """Copies follow the changelogs."""
