"""Which stores of a task have had a commit: one that is gone is not taken for one that is empty.

A task begins new stores empty, and a directory that was lost looks like that. So the task's own
store has a row with the names of those that have been written, in the commits of the task.
"""

import json
from typing import TYPE_CHECKING

from statestores.errors import StoreCorruptedError

if TYPE_CHECKING:
    from statestores.spi import KeyValueStore
    from statestores.tasks import Task

_ROW = b"held"


class HeldStores:
    """The stores of one task that hold a commit, as far as its last commit has said so."""

    def __init__(self, task: "Task", rows: "KeyValueStore[bytes, bytes]") -> None:
        """Check the stores of *task* against what *rows*, its own store, has of them.

        A state that an earlier release has left says nothing of them until its next commit.

        Raises:
            StoreCorruptedError: One that held a commit has none.
        """
        self._stores = task.stores
        self._rows = rows
        kept = rows.get(_ROW)
        self._names = frozenset[str](() if kept is None else json.loads(kept))
        gone = [
            name
            for name in sorted(self._names & self._stores.keys())
            if self._stores[name].committed_offset is None
        ]
        if gone:
            raise StoreCorruptedError(
                f"the task {task.id} has written {', '.join(map(repr, gone))}, of which there is "
                f"nothing any more in partition {task.id.partition}: its directory has been "
                "removed, or was not copied; put it back, or reset the state"
            )

    def note(self) -> None:
        """Have the commit that follows say what it writes for the first time."""
        written = {name for name, each in self._stores.items() if each.store.has_pending_writes}
        if not written <= self._names:
            self._names |= written
            self._rows.put(_ROW, json.dumps(sorted(self._names)).encode())
