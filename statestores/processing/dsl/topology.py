"""`Topology`: where a topology begins, and what can be done with it."""

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeVar

from statestores.errors import InvalidTopologyError, InvalidTypeError
from statestores.processing.dsl.builder import Builder
from statestores.processing.dsl.global_table import GlobalTable
from statestores.processing.dsl.grouped import GroupedTable
from statestores.processing.dsl.stream import Stream
from statestores.processing.dsl.table import Table
from statestores.processing.error_policy import Action, ErrorPolicy, error_policy
from statestores.processing.fields import Selector
from statestores.processing.operators.ends import Source
from statestores.processing.stores import AnyKeyValue, table_store
from statestores.processing.testing.driver import TestDriver
from statestores.processing.topic import Topic
from statestores.processing.topology import Graph, as_mermaid, as_text, build_graph, describe
from statestores.spi import KeyValue, Versioned

K = TypeVar("K")
V = TypeVar("V")


class Topology:
    """A description of sources, operators, stores and sinks. It runs nothing itself.

    Its name is the first part of the names of the topics that it needs for itself: it stays the
    same as long as the state is to be found again.
    """

    def __init__(
        self,
        name: str,
        *,
        errors: Action | ErrorPolicy = "fail",
        max_task_idle_ms: int = 0,
    ) -> None:
        """Begin with nothing.

        Args:
            name: 1 to 249 of the characters a-z, A-Z, 0-9, ``.``, ``_`` and ``-``.
            errors: What becomes of records that cannot be decoded, processed or encoded.
            max_task_idle_ms: How long a task waits for a partition that has no record at hand, so
                that records are taken in the order of their times (KIP-353). 0: only for what is
                known to be there; negative: not at all.
        """
        self._builder = Builder(name, stream=Stream, grouped_table=GroupedTable)
        self._errors = error_policy(errors)
        if type(max_task_idle_ms) is not int:
            raise InvalidTypeError(f"max_task_idle_ms must be an int, got {max_task_idle_ms!r}")
        self._max_task_idle_ms = max_task_idle_ms
        self._times: dict[str, tuple[Selector | None, bool]] = {}

    def __repr__(self) -> str:
        return f"Topology({self.name!r})"

    @property
    def name(self) -> str:
        """The topology's name."""
        return self._builder.name

    def stream(
        self,
        topic: Topic[K, V],
        *,
        time: Selector | None = None,
        use_partition_time: bool = False,
    ) -> Stream[K, V]:
        """Read the records of *topic*.

        Args:
            topic: What to read.
            time: When a record happened, in milliseconds, if not its own timestamp: a path such as
                ``value.ordered_ms``, or a function of the record.
            use_partition_time: Give a record without a time that could be one the highest of its
                partition so far, instead of dealing with it as the error policy says.
        """
        node = self._source(topic, time, use_partition_time=use_partition_time)
        return Stream(self._builder, node, topic.key, topic.value, origin=topic.name)

    def table(
        self,
        topic: Topic[K, V],
        store: AnyKeyValue[K, V] | Versioned[K, V] | None = None,
        *,
        time: Selector | None = None,
        use_partition_time: bool = False,
    ) -> Table[K, V]:
        """Keep the last value of each key of *topic*, in *store*; by default one of its name.

        With a `Versioned` store the table has a history: it is joined as of a record's time, and a
        late row changes what was then, not what is now (KIP-914).
        """
        chosen: Any = _named_after(topic) if store is None else store
        node = self._source(topic, time, use_partition_time=use_partition_time)
        return Table.kept(self._builder, node, chosen)

    def global_table(
        self, topic: Topic[K, V], store: AnyKeyValue[K, V] | Versioned[K, V] | None = None
    ) -> GlobalTable[K, V]:
        """Keep the rows of all partitions of *topic* in every instance (KIP-99).

        For small tables that many streams look up by fields of theirs: nothing is repartitioned
        for such a join, and every instance has all of it on disk.

        Raises:
            InvalidTypeError: *topic* is no topic, or *store* cannot hold a table.
            InvalidTopologyError: The topic is read in another way already.
        """
        chosen: Any = _named_after(topic) if store is None else store
        self._check_topic(topic)
        node = self._builder.source(topic, lambda: Source(topic), is_global=True)
        table: Table[K, V] = Table.kept(self._builder, node, chosen)
        return GlobalTable(table, table_store(chosen))

    def build(self) -> Graph:
        """Return the topology as it can be run, checked (PRC-1).

        Raises:
            InvalidTopologyError: It could not be run; the message says why, and what to do.
        """
        nodes = list(self._builder.nodes.values())
        return build_graph(self.name, nodes, self._errors, self._max_task_idle_ms)

    def describe(self) -> str:
        """Return the topology as text: its parts, their steps, stores and topics."""
        return as_text(self.build())

    def mermaid(self) -> str:
        """Return the topology as a Mermaid diagram."""
        return as_mermaid(self.build())

    def description(self) -> Mapping[str, Any]:
        """Return what of the topology outlives a process, as plain values (PRC-6)."""
        return describe(self.build())

    def test(
        self,
        *,
        backend: str = "memory",
        directory: str | PathLike[str] | None = None,
        options: Mapping[str, object] | None = None,
        partitions: int = 1,
        wall_ms: int = 0,
        commit_each: bool = True,
        cache_max_bytes: int = 0,
    ) -> TestDriver:
        """Return a driver that runs the topology in this thread, record by record (PRC-47).

        Args:
            backend: Where the stores are; memory by default.
            directory: Where their files are; by default in a directory that goes with the driver.
                A driver over a directory of an earlier one goes on from its last commit.
            options: The backend's own options.
            partitions: How many partitions topics have that do not say it.
            wall_ms: The wall clock to begin with.
            commit_each: Commit after every call. Else by `TestDriver.commit`.
            cache_max_bytes: Memory in which updates wait for the commit; see `run`.
        """
        return TestDriver(
            self.build(),
            backend=backend,
            directory=directory,
            options=options,
            partitions=partitions,
            wall_ms=wall_ms,
            commit_each=commit_each,
            cache_max_bytes=cache_max_bytes,
        )

    def _source(
        self, topic: Topic[Any, Any], time: Selector | None, *, use_partition_time: bool
    ) -> str:
        self._check_topic(topic)
        source = Source(topic, time, use_partition_time=use_partition_time)  # checks the selector
        del source
        asked = (time, use_partition_time)
        if self._times.setdefault(topic.name, asked) != asked:
            raise InvalidTopologyError(
                f"the topic {topic.name!r} is read with two times, {self._times[topic.name]!r} and "
                f"{asked!r} (time=, use_partition_time=); use the first stream twice"
            )
        return self._builder.source(
            topic, lambda: Source(topic, time, use_partition_time=use_partition_time)
        )

    def _check_topic(self, topic: object) -> None:
        if not isinstance(topic, Topic):
            raise InvalidTypeError(f"a source is a Topic, such as Topic('lines'), got {topic!r}")


def _named_after(topic: Topic[Any, Any]) -> AnyKeyValue[Any, Any]:
    make: Any = KeyValue
    store: AnyKeyValue[Any, Any] = make(
        topic.name, key=topic.key, value=topic.value, partitioner=topic.partitioner
    )
    return store
