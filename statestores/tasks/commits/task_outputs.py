"""What a task emits beside its stores' changes: part of the same commit (TSK-14)."""

from pathlib import Path
from typing import Protocol


class TaskOutputs(Protocol):
    """Takes part in a task's commits. What is emitted, and where to, is its own affair.

    A commit that emits is recorded: `record` is called before the record has its name, `publish`
    after it, and before any store has the commit. After a crash, `publish` may be called again for
    a commit of which some or all is published.
    """

    @property
    def has_pending(self) -> bool:
        """Whether the next commit emits something."""

    def record(self, directory: Path) -> None:
        """Write what is pending into the new *directory*; on disk on return.

        Raises:
            StorageError: It cannot be written.
        """

    def publish(self, directory: Path) -> None:
        """Emit what `record` wrote to *directory*, but for what is out already.

        Raises:
            StateStoreError: It cannot be emitted; the commit stands, and is finished by the next
                opening of the task.
        """

    def forget(self) -> None:
        """Have nothing pending: it is committed, or rolled back."""
