"""What a task emits beside its stores' changes: part of the same commit (TSK-14)."""

from collections.abc import Mapping
from typing import Protocol, TypeAlias

OutputFiles: TypeAlias = Mapping[str, bytes]
"""What a commit emits, by names of the outputs' own; the record keeps it as it is."""


class TaskOutputs(Protocol):
    """Takes part in a task's commits. What is emitted, and where to, is its own affair.

    A commit that emits is recorded: `record` is called before the record has its name, `publish`
    after it, and before any store has the commit. After a crash, `publish` may be called again for
    a commit of which some or all is published.
    """

    @property
    def has_pending(self) -> bool:
        """Whether the next commit emits something."""

    def record(self) -> OutputFiles:
        """Return what is pending, for the record of the commit."""

    def publish(self, files: OutputFiles) -> None:
        """Emit what `record` gave, but for what is out already.

        Raises:
            StateStoreError: It cannot be emitted; the commit stands, and is finished by the next
                opening of the task.
        """

    @property
    def reached(self) -> Mapping[str, int]:
        """How far what was published since the opening goes, by place, in words of its own.

        The task remembers it with its commit, for `check` at its next opening (TSK-16).
        """

    def check(self, reached: Mapping[str, int]) -> None:
        """Accept places that have what earlier commits have published, as `reached` said.

        Raises:
            StateStoreError: One has not: it is gone, or an older copy of it was put back.
        """

    def forget(self) -> None:
        """Have nothing pending: it is committed, or rolled back."""
