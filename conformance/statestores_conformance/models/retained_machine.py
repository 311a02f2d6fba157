"""What the machines of window and session stores have in common: times around stream time."""

from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st

from statestores_conformance.models.retained import RetainedModel
from statestores_conformance.models.store import StoreMachine, keys

RetainedModelT = TypeVar("RetainedModelT", bound=RetainedModel)

RETENTIONS_MS = [20, 10**6]
"""The first is small compared with the steps: windows and sessions expire again and again."""

steps = st.sampled_from([*range(-30, 20, 5), 0, -10, 400])
"""How far a time is ahead of or behind stream time. Few, to meet each other and the horizon."""

open_steps = st.none() | steps
open_keys = st.none() | keys


class RetainedMachine(StoreMachine[RetainedModelT]):
    """A machine whose times move on with stream time."""

    def __init__(self, open_store: Any, root: Path) -> None:
        super().__init__(open_store, root)
        self.retention_ms = RETENTIONS_MS[0]

    def time(self, step: int) -> int:
        """Return the time that is *step* ahead of the owner's stream time."""
        return max(0, (self.model.stream_time_ms or 0) + step)

    def open_time(self, step: int | None) -> int | None:
        """Return the same, or ``None`` for no bound."""
        return None if step is None else self.time(step)

    def range_of(self, step: int | None, other: int | None) -> tuple[int | None, int | None]:
        """Return a range of times that is not inverted, open or not at either side."""
        if step is not None and other is not None:
            step, other = sorted((step, other))
        return self.open_time(step), self.open_time(other)
