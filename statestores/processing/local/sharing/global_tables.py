"""The global tables of a process: its own where it runs their tasks, else copies of them (PRC-92).

One process runs the task of a global table, and emits its dead letters. The others follow its
changelogs, each with a copy that the process's tasks read. They do so in `poll`, on the thread that
runs the tasks: so a join sees one state of the table for as long as it processes.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from statestores.errors import InvalidStateStoreError
from statestores.processing.local.edges import source_part
from statestores.processing.local.sharing.copies import Copies
from statestores.processing.local.sharing.instances import ActiveTask
from statestores.processing.local.task_plan import PlannedTask
from statestores.processing.local.topics import AnyTopic

if TYPE_CHECKING:
    from statestores.spi import TopicPartition


class TableReader:
    """A global table, for joins: which copy of it they read may change."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._table: Any = None

    def use(self, table: Any) -> None:
        """Read *table* from now on."""
        self._table = table

    def get(self, *arguments: Any) -> Any:
        """Return the row of a key, of a versioned table as of a time; ``None`` without one."""
        return self._table.get(*arguments)


class GlobalTables:
    """Which there are, and whether they are as far as joins need. One thread uses it."""

    def __init__(
        self,
        plan: Iterable[PlannedTask],
        topics: Mapping[str, AnyTopic],
        copies: Copies,
        stores: dict[str, Any],
    ) -> None:
        """Have none yet. *stores* is what tasks are opened with, and has the readers."""
        self.tasks = {each.name: each for each in plan if each.is_global}
        """The tasks that keep them."""
        self.copies = copies
        """Those of tables whose tasks others run."""
        self._parts = {each.part for each in plan}
        self._topics, self._stores = topics, stores
        self._readers: dict[str, TableReader] = {}
        self._wanted: dict[str, dict[TopicPartition, int]] = {}

    def may_open(self, name: str, is_feeding: Callable[[str], bool]) -> bool:
        """Whether the table of the task *name* can be opened: nothing fills its topic any more."""
        return not any(
            source_part(topic) in self._parts and is_feeding(topic)
            for topic in self.tasks[name].reads
        )

    def opened(self, name: str) -> None:
        """Have the joins that are here read the stores of the task *name*, which is here now."""
        for store in self.tasks[name].stores:
            reader = self._readers.pop(store, None)
            if reader is not None:
                reader.use(self._stores[store])

    def follow(self, mine: Collection[str]) -> None:
        """Take what has come of the tables whose tasks are not *mine*.

        Raises:
            StateStoreError: A copy cannot be opened, or its changelog not be read.
        """
        elsewhere = [task for name, task in self.tasks.items() if name not in mine]
        self.copies.keep(elsewhere)
        self.copies.poll()
        for task in elsewhere:
            for store in task.stores:
                for standby in self.copies.standbys(store).values():
                    with suppress(InvalidStateStoreError):  # it has nothing yet
                        table = standby.read_only(include_stale=True)
                        self._stores[store] = self._readers.setdefault(store, TableReader())
                        self._readers[store].use(table)

    def are_ready(
        self,
        mine: Collection[str],
        told: Mapping[str, ActiveTask],
        silent: Collection[str],
        is_feeding: Callable[[str], bool],
    ) -> bool:
        """Whether each has what its topic had when this was first asked, since it was so (PRC-92).

        Args:
            mine: The tasks that are here.
            told: What the other processes say of theirs.
            silent: The tasks of those that have said nothing for long: what these have not
                processed is not waited for.
            is_feeding: Whether the source of a topic has more.
        """
        are_ready = all(
            name in mine
            or (
                name in told
                and (name in silent or self._is_read(name, told[name], is_feeding))
                and self._has(name, told[name])
            )
            for name in self.tasks
        )
        if are_ready:
            self._wanted = {}
        return are_ready

    def _is_read(self, name: str, told: ActiveTask, is_feeding: Callable[[str], bool]) -> bool:
        """Whether the task has committed what was there of its topics."""
        if name not in self._wanted:
            if not self.may_open(name, is_feeding):
                return False
            self._wanted[name] = {
                place: self._topics[place.topic].logs[place.partition].end_offset
                for place in told.reads
            }
        return all(told.reads.get(place, 0) >= end for place, end in self._wanted[name].items())

    def _has(self, name: str, told: ActiveTask) -> bool:
        """Whether the copies have all of the stores' changes."""
        return all(
            store in self._readers and standby.lag.current_offset >= told.stores[store]
            for store in self.tasks[name].stores
            for standby in self.copies.standbys(store).values()
        )
