"""What a bulk operation that failed has put and not committed is taken back; its error is told."""

from statestores.errors import CommitConflictError, StateStoreError
from statestores.spi.stores.store import StateStore


def take_back(store: StateStore, error: BaseException) -> None:
    """Roll *store* back after *error*, which the caller raises: nothing else is raised.

    What hinders the rollback, such as a commit that is there after all (COM-43), becomes a note of
    *error*. Then what was put since that commit is rolled back nonetheless.

    Requires: nothing was pending before, so that what is pending is of the operation.
    """
    if not store.is_open:
        return
    try:
        try:
            store.rollback()
        except CommitConflictError as refused:
            error.add_note(str(refused))
            if store.has_pending_writes:
                store.rollback()
    except StateStoreError as refused:
        if str(refused) not in getattr(error, "__notes__", ()):
            error.add_note(str(refused))
