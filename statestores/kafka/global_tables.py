"""The global tables of an instance: every partition of their topics, without a group (KFK-14).

A global table's topic is its changelog: its stores commit the offsets of the topic's partitions.
Stores that have missed what the topic no longer has, or are of another topic, begin anew.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from statestores.errors import InvalidTopologyError, TopologyMismatchError
from statestores.kafka.broker_errors import broker_error
from statestores.kafka.client_settings import CLIENT_LOGGER, ClientSettings
from statestores.kafka.cluster import Cluster, may_pass
from statestores.kafka.messages import offset_of, place_of, record_of
from statestores.kafka.plan import Plan
from statestores.kafka.readers import consumed, open_reader
from statestores.kafka.tasks.noted_topics import NotedTopic
from statestores.kafka.undecided import UndecidedEnds
from statestores.opening import open_store
from statestores.processing.record import RawRecord
from statestores.processing.runtime import TaskRuntime
from statestores.processing.topology import SubTopology
from statestores.serdes.typed_stores.processor_store import for_processors
from statestores.spi import Durability, StateStore, TopicPartition
from statestores.spi.closing import Closing
from statestores.stopping import StopRequest

if TYPE_CHECKING:
    from concurrent.futures import Future

_BATCH_RECORDS = 2_000
_WAIT_SECONDS = 0.1
_LOOK_SECONDS = 5.0
"""How often the topics are asked for partitions that have come."""


class _Silent:
    """The output of a part that has none."""

    def emit(self, topic: str, record: RawRecord, partition: int | None) -> None:
        """Refuse: it is a dead letter, and would be emitted once by each instance."""
        raise InvalidTopologyError(
            "a record of a global table has failed, and every instance would write it to "
            f"{topic!r}; have an ErrorPolicy skip such records, or make it a table"
        )


class _GlobalTable:
    """One part: its stores and its runtime."""

    def __init__(self, part: SubTopology, stores: Mapping[str, StateStore], plan: Plan) -> None:
        self.stores = stores
        self.for_processors = {
            name: for_processors(store, "the runner commits global tables")
            for name, store in stores.items()
        }
        self.runtime = TaskRuntime(
            part, 0, self.for_processors, _Silent(), wall_ms=0, errors=plan.graph.errors
        )
        self.reached: dict[TopicPartition, int] = {}
        self._noted: dict[str, list[NotedTopic]] = {name: [] for name in stores}

    def begin(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        ids: Mapping[str, str],
    ) -> None:
        """Empty a store that has missed what its topics no longer have, or is of other topics.

        Deletions may be among it: what they have deleted would stay, here and in no other instance.
        """
        topics = {place.topic for place in starts}
        for name, store in self.stores.items():
            noted = self._noted[name] = [NotedTopic(store, each, ids[each]) for each in topics]
            known = store.committed_offsets()
            has_missed = any(
                place in known and not start <= known[place] + 1 <= ends[place]
                for place, start in starts.items()
            )
            if has_missed or any(each.is_other for each in noted):
                CLIENT_LOGGER.warning(
                    "the global table %r has missed what %s no longer has, or reflects another "
                    "topic of that name; it is read from the beginning",
                    name,
                    ", ".join(map(repr, sorted(topics))),
                )
                store.truncate()
                for each in noted:
                    each.has_been_emptied()

    def next_offset(self, place: TopicPartition) -> int:
        """Return where to go on reading: where the store that is furthest behind does."""
        found = [store.committed_offset(place) for store in self.stores.values()]
        return min(0 if offset is None else offset + 1 for offset in found)

    def commit(self) -> None:
        """Commit each store with what it has read; one that is behind another repeats rows."""
        if self.reached:
            self.runtime.prepare_commit()
            for name, store in self.stores.items():
                known = {place: store.committed_offset(place) for place in self.reached}
                offsets = {
                    place: offset
                    for place, offset in self.reached.items()
                    if offset > (-1 if known[place] is None else known[place] or 0)
                }
                for noted in self._noted[name]:
                    offsets |= noted.offsets()
                store.commit(offsets)
                for noted in self._noted[name]:
                    noted.has_been_committed()
            self.reached = {}


class GlobalTables(Closing):
    """Used by the thread that processes, so that its tasks may read the stores."""

    def __init__(
        self,
        plan: Plan,
        settings: ClientSettings,
        cluster: Cluster,
        directory: Path,
        *,
        backend: str | None,
        options: Mapping[str, object] | None,
        durability: Durability,
        stopping: StopRequest,
    ) -> None:
        """Open every global table, and read each up to where its topic ends now (PRC-37).

        What was read is committed again and again. Once a run is *stopping*, it is left at that.

        Raises:
            BrokerError: The cluster does not answer.
            StateStoreError: A store cannot be opened or written.
        """
        self._stack = ExitStack()
        self._tables: dict[str, _GlobalTable] = {}
        self.opened: dict[str, StateStore] = {}
        """The stores by name, for whoever reads them from another thread."""
        self._consumer: Consumer | None = None
        self._plan, self._cluster = plan, cluster
        self._asked: dict[str, Future[Any]] = {}
        self._look_due = time.monotonic() + _LOOK_SECONDS
        if not plan.global_parts:
            return
        try:
            for part in plan.global_parts:
                stores: dict[str, StateStore] = {}
                for specification in part.stores:
                    stores[specification.name] = self._stack.enter_context(
                        open_store(
                            directory / specification.name / "0",
                            specification,
                            backend=backend,
                            options=options,
                            durability=durability,
                        )
                    )
                table = _GlobalTable(part, stores, plan)
                self._stack.callback(table.runtime.close)
                for topic in part.source_topics:
                    self._tables[topic.name] = table
            self._begin(plan, settings, cluster, stopping)
            self.opened = {
                name: store
                for table in self._tables.values()
                for name, store in table.stores.items()
            }
        except BaseException:
            self._stack.close()
            raise

    @property
    def stores(self) -> dict[str, Any]:
        """The stores by name, as the runtimes of tasks get them."""
        return {
            name: store
            for table in self._tables.values()
            for name, store in table.for_processors.items()
        }

    def advance(self, wait_seconds: float = 0.0) -> dict[TopicPartition, int]:
        """Take what has come; return where partitions were found to end.

        Raises:
            ProcessingError: A record failed, and the policy is to fail.
            BrokerError: A topic cannot be read.
            TopologyMismatchError: A topic has more partitions than were read when this began.
        """
        ended: dict[TopicPartition, int] = {}
        if self._consumer is None:
            return ended
        if time.monotonic() >= self._look_due:
            self._check_partitions()
        for message in consumed(self._consumer, _BATCH_RECORDS, wait_seconds):
            place = place_of(message)
            offset = offset_of(message)
            error = message.error()
            if error is None:
                table = self._tables[place.topic]
                table.runtime.process(*place, offset, record_of(message))
                table.reached[place] = offset
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                ended[place] = offset
            elif not may_pass(error):
                raise broker_error(f"read the global table {place.topic!r}", KafkaException(error))
        return ended

    def _check_partitions(self) -> None:
        """Take the answer of how many partitions there are, if it has come, and ask anew."""
        self._look_due = time.monotonic() + _LOOK_SECONDS
        asked, self._asked = self._asked, self._cluster.descriptions(self._tables)
        for name, answer in asked.items():
            try:
                count = len(answer.result(0).partitions) if answer.done() else 0
            except KafkaException as error:  # the next answer will do
                CLIENT_LOGGER.debug("the partitions of %r are not known: %s", name, error)
                continue
            if count > self._plan.counts[name]:
                raise TopologyMismatchError(
                    f"the topic {name!r} of a global table has {count} partitions, and had "
                    f"{self._plan.counts[name]} when this instance began; start again to read all "
                    "of them"
                )

    def commit(self) -> None:
        """Commit what was taken.

        Raises:
            StateStoreError: A store cannot be written.
        """
        for table in dict.fromkeys(self._tables.values()):
            table.commit()

    def close(self) -> None:
        """Close stores and consumer; what is not committed is read again."""
        self._stack.close()

    def _begin(
        self, plan: Plan, settings: ClientSettings, cluster: Cluster, stopping: StopRequest
    ) -> None:
        self._consumer = open_reader(settings, plan.application)
        self._stack.callback(self._consumer.close)
        places = [
            TopicPartition(name, number)
            for name in self._tables
            for number in range(plan.counts[name])
        ]
        starts, ends = cluster.starts(places), cluster.ends(places, committed=False)
        ids = cluster.ids_of(self._tables)
        for table in dict.fromkeys(self._tables.values()):
            own = [place for place in places if self._tables[place.topic] is table]
            table.begin(
                {place: starts[place] for place in own}, {place: ends[place] for place in own}, ids
            )
        begin = {
            place: max(starts[place], self._tables[place.topic].next_offset(place))
            for place in places
        }
        self._consumer.assign([KafkaPartition(*place, offset) for place, offset in begin.items()])
        undecided = UndecidedEnds(cluster)
        found: dict[TopicPartition, int] = {}
        missing = {place: end for place, end in ends.items() if begin[place] < end}
        while not (missing.keys() <= found.keys() and undecided.are_reached(found, missing)):
            found |= self.advance(_WAIT_SECONDS)
            self.commit()
            if stopping.is_set():
                return
