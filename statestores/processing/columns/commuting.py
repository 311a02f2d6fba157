"""Which sources of a task may take their rows one after the other, though their records alternate.

Rows of two topics may change places where nobody can tell: where what is behind the one shares no
step, no store and no topic to write with what is behind the other, and where no code of the user's
is reached that sees more than its own record. One store may be shared: that of a versioned table,
with a join as of the records' times. There the versions are put first, as far as that is no
different: as far as none that comes later than a record is of its time or before, and none moves
the end of the history past a record's time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.processing.columns.batches import ProcessBatches
from statestores.processing.columns.column import Flags, Numbers
from statestores.processing.columns.expressions import is_on_columns
from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.operators.ends import Source
from statestores.processing.operators.last_updates import children_of
from statestores.processing.operators.operator import Operator, Pass, TaskServices
from statestores.processing.operators.processors import Process
from statestores.processing.operators.stateless import (
    Filter,
    FlatMap,
    Map,
    MapValues,
    Peek,
    Rekey,
)
from statestores.processing.operators.stream_table import AsOfJoin
from statestores.processing.operators.tables import VersionedTableSource
from statestores.processing.stores import key_serde
from statestores.processing.topology import Node, SubTopology
from statestores.spi import StoreSpecification

_CAN_TELL = (Process, ProcessBatches, Peek)
"""Code of the user's that sees the task, or in which order records of several topics come."""

_KEEP_TIMES = (Source, Pass, Filter, MapValues, Rekey, AsOfJoin)
"""Steps that give every record on at its own time."""

_KEEP_KEYS = (Source, Pass, Filter, MapValues, Map, FlatMap, AsOfJoin)
"""Those of them, and of what an expression makes, that give it on under its own key."""

_WIDEST = 1 << 62


class Guard(NamedTuple):
    """A join as of records' times with a table that is filled in the same block."""

    join: AsOfJoin
    """The join."""

    reader: str
    """The topic whose records are joined."""

    table: str
    """The topic that fills the table."""

    has_same_keys: bool
    """Whether the bytes of a record's key are those of its version's."""


class Plan(NamedTuple):
    """How the rows of several topics may be taken, topic by topic."""

    topics: tuple[str, ...]
    """The topics, in the order in which they are taken."""

    guards: tuple[Guard, ...]
    """What may not change places nevertheless."""


class Rows(NamedTuple):
    """Rows of several topics, in the order in which they come up."""

    topics: Sequence[str]
    """The topics."""

    order: Numbers
    """For each row, the place of its topic."""

    keys: Sequence[pa.Array]
    """For each topic, the keys of its rows as bytes."""

    times: Numbers
    """The time of each row."""

    def are_of(self, topic: str) -> Flags:
        """Return which rows are of *topic*."""
        flags: Flags = self.order == self.topics.index(topic)
        return flags


class _Behind:
    """What is behind one source."""

    def __init__(
        self, source: Node, below: Mapping[str, Sequence[Node]], operators: Mapping[str, Operator]
    ) -> None:
        self.source = source
        self.nodes: dict[str, Node] = {source.name: source}
        ahead = [source]
        while ahead:
            for node in below[ahead.pop().name]:
                if node.name not in self.nodes:
                    self.nodes[node.name] = node
                    ahead.append(node)
        self.stores = {store.name for node in self.nodes.values() for store in node.stores}
        self.topics = {node.writes.name for node in self.nodes.values() if node.writes is not None}
        self.can_tell = any(isinstance(operators[name], _CAN_TELL) for name in self.nodes)

    def users(self, store: str) -> list[Node]:
        """Return the steps that use *store*."""
        return [
            node for node in self.nodes.values() if any(each.name == store for each in node.stores)
        ]

    def above(self, node: Node) -> list[Node]:
        """Return *node* and the steps that its records come through."""
        found, ahead = {node.name: node}, [node]
        while ahead:
            for name in ahead.pop().parents:
                if name in self.nodes and name not in found:
                    found[name] = self.nodes[name]
                    ahead.append(found[name])
        return list(found.values())


class Commuting:
    """The sources of one task that may change places."""

    def __init__(
        self, part: SubTopology, operators: Mapping[str, Operator], errors: ErrorPolicy
    ) -> None:
        """Look at *part*. Letters to one topic would come in another order, so there are none."""
        below = children_of(part.nodes)
        self._operators = operators
        self._behind = {
            node.reads.name: _Behind(node, below, operators)
            for node in part.sources
            if node.reads is not None
        }
        self._has_letters = bool(errors.dead_letter_topics)
        self._plans: dict[tuple[str, ...], Plan | None] = {}

    def plan(self, topics: tuple[str, ...]) -> Plan | None:
        """Return how rows of *topics* may be taken one topic after the other; ``None``: not."""
        if topics not in self._plans:
            self._plans[topics] = self._planned(topics)
        return self._plans[topics]

    def _planned(self, topics: tuple[str, ...]) -> Plan | None:
        if self._has_letters or len(set(topics)) < len(topics):
            return None
        several = [self._behind[topic] for topic in topics]
        if any(each.can_tell for each in several):
            return None
        guards: list[Guard] = []
        for place, one in enumerate(several):
            for other in several[place + 1 :]:
                if one.nodes.keys() & other.nodes.keys() or one.topics & other.topics:
                    return None
                for store in one.stores & other.stores:
                    found = self._guards(store, one, other) or self._guards(store, other, one)
                    if not found:
                        return None
                    guards += found
        tables, readers = {each.table for each in guards}, {each.reader for each in guards}
        if tables & readers:
            return None
        first = [topic for topic in topics if topic in tables]
        return Plan((*first, *(topic for topic in topics if topic not in tables)), tuple(guards))

    def _guards(self, store: str, table: _Behind, reader: _Behind) -> list[Guard]:
        """Return the joins of *reader* with *store*, which *table* fills; none if it is else."""
        operators = self._operators
        owners, users = table.users(store), reader.users(store)
        if (
            len(owners) != 1
            or owners[0].parents != (table.source.name,)
            or not isinstance(operators[owners[0].name], VersionedTableSource)
        ):
            return []
        guards = []
        for node in users:
            join = operators[node.name]
            above = [operators[each.name] for each in reader.above(node)]
            if not isinstance(join, AsOfJoin) or not all(map(_keeps_times, above)):
                return []
            sources = [operators[each.source.name] for each in (reader, table)]
            if any(isinstance(each, Source) and each.use_partition_time for each in sources):
                return []
            topics = [each.source.reads for each in (reader, table)]
            if topics[0] is None or topics[1] is None:
                return []
            has_same_keys = (
                topics[0].key == topics[1].key
                and topics[0].key == key_serde(_of_name(owners[0], store))
                and join.key is None
                and join.waiting is None  # one that waits is joined when another key's comes
                and all(isinstance(each, _KEEP_KEYS) for each in above)
            )
            guards.append(Guard(join, topics[0].name, topics[1].name, has_same_keys))
        return guards


def _of_name(node: Node, store: str) -> StoreSpecification[Any, Any]:
    return next(each for each in node.stores if each.name == store)


def _keeps_times(operator: Operator) -> bool:
    if isinstance(operator, (Map, FlatMap)):  # a function may give records of other times
        return is_on_columns(operator.function)
    return isinstance(operator, _KEEP_TIMES)


def end_of_plan(plan: Plan, rows: Rows, task: TaskServices) -> int:
    """Return how many of *rows*, from the first on, may be taken as *plan* says."""
    end = len(rows.order)
    for guard in plan.guards:
        end = min(end, _end_of_guard(guard, rows, task))
    return end


def _end_of_guard(guard: Guard, rows: Rows, task: TaskServices) -> int:
    """Return before which row a version would be found by a record that comes before it."""
    are_read, are_put = rows.are_of(guard.reader), rows.are_of(guard.table)
    if not are_read.any() or not are_put.any():
        return len(rows.order)
    join, times = guard.join, rows.times
    store = task.store(join.store)
    earliest_ms = int(times[are_read].min())
    if join.waiting is not None:
        earliest_ms = min(earliest_ms, task.observed_time(join.name).now_ms - join.wait_ms)
    known_ms = store_of_bytes(store).stream_time_ms  # type: ignore[attr-defined]  # a timed store
    latest_ms = max(-1 if known_ms is None else known_ms, int(times[are_put].max()))
    if earliest_ms < latest_ms - store.specification.history_retention_ms:
        return 0
    read_until = np.maximum.accumulate(np.where(are_read, times, -1))
    too_early = are_put & (times <= read_until)
    if guard.has_same_keys and too_early.any():
        too_early &= _of_same_keys(guard, rows, are_read, are_put)
    return int(too_early.argmax()) if too_early.any() else len(rows.order)


def _of_same_keys(guard: Guard, rows: Rows, are_read: Flags, are_put: Flags) -> Flags:
    """Return which versions are no later than a record of their key that comes before them."""
    chosen = np.flatnonzero(are_read | are_put)
    keys = pa.concat_arrays(
        [rows.keys[rows.topics.index(guard.reader)], rows.keys[rows.topics.index(guard.table)]]
    )
    found = keys.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    codes = np.empty(len(rows.order), np.int64)
    codes[are_read], codes[are_put] = np.split(found, [int(are_read.sum())])
    codes, times, reads = codes[chosen], rows.times[chosen], are_read[chosen]
    least = int(times.min())
    span = int(times.max()) - least + 2
    flags = np.ones(len(rows.order), np.bool_)
    if span > _WIDEST // (int(codes.max()) + 1):
        return flags  # no number says both: whatever the key
    sorting = np.argsort(codes, kind="stable")
    base = codes[sorting] * span
    after = times[sorting] - least + 1
    latest = np.maximum.accumulate(base + np.where(reads[sorting], after, 0)) - base
    flags[chosen[sorting]] = after <= latest
    return flags
