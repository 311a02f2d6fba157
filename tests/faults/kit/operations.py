"""All operations of which calls fail, by name."""

from typing import TypeAlias

from failing_operations import (
    Close,
    Commit,
    Compact,
    DeleteBefore,
    Open,
    OpenHalfCommitted,
    OpenNew,
    Operation,
    Restore,
    RestoreFromSnapshot,
    TakeSnapshot,
    Truncate,
)
from failing_staged import Finish, Publish, Stage, StagedOperation

AnyOperation: TypeAlias = Operation | StagedOperation

OPERATIONS: dict[str, type[AnyOperation]] = {
    operation.name: operation
    for operation in (
        Commit,
        Open,
        OpenNew,
        OpenHalfCommitted,
        Close,
        Truncate,
        TakeSnapshot,
        Compact,
        DeleteBefore,
        Restore,
        RestoreFromSnapshot,
        Stage,
        Publish,
        Finish,
    )
}
"""The operations by name."""
