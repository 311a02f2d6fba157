"""How far a run has come."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Counted since the run began, over all tasks."""

    processed: int
    """Records that were read."""

    emitted: int
    """Records that were written, to internal topics and dead letters too."""

    dropped: int
    """Records that went no further, for whatever reason."""

    commits: int
    """Commits of tasks."""
