"""What threads read while the owner commits, recorded and judged afterwards.

There is one writer, so the commits are a sequence, and each of them leaves one state. A read is
right if its result is that of a state between the last commit that had returned when the read began
and the last one that had begun when it ended; and no reader may go back. Reads are judged by what
they saw and not by how long they took, so the verdict does not depend on the machine.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class State:
    """What one commit left."""

    offset: int | None
    """The committed offset."""

    content: dict[bytes, bytes]
    """The latest value of each key that has one."""


@dataclass(frozen=True, slots=True)
class Read:
    """One read by one thread."""

    what: str
    """The read, for the message."""

    result: Any
    """What it gave."""

    of: Callable[[State], Any]
    """What it would give in a given state."""

    returned: int
    """The number of the last commit that had returned when the read began."""

    begun: int
    """The number of the last commit that had begun when the read ended."""


@dataclass(slots=True)
class Commits:
    """The commits of the writer; commit number 0 left the first state."""

    states: list[State] = field(default_factory=list)
    """What each commit leaves; noted before it begins."""

    begun: int = -1
    """The last commit that has begun."""

    returned: int = -1
    """The last commit that has returned."""

    def begin(self, state: State) -> None:
        """Note what the next commit will leave."""
        self.states.append(state)
        self.begun = len(self.states) - 1

    def end(self) -> None:
        """Note that the commit has returned."""
        self.returned = self.begun


def contradictions(commits: Commits, history: list[Read]) -> list[str]:
    """Return in words the first read of *history*, of one thread, that no order of events allows.

    Each read takes the earliest state that explains it, so whatever can be explained is.
    """
    last = 0
    for number, read in enumerate(history):
        low, high = max(last, read.returned), read.begun
        explained = (
            state for state in range(low, high + 1) if read.of(commits.states[state]) == read.result
        )
        found = next(explained, None)
        if found is None:
            earlier = [
                state
                for state, content in enumerate(commits.states)
                if read.of(content) == read.result
            ]
            expected = f"expected a state from {low} to {high}"
            found_in = f"it is that of {earlier or 'none'}"
            return [f"read {number}, {read.what}, gave {read.result!r}: {expected}, and {found_in}"]
        last = found
    return []
