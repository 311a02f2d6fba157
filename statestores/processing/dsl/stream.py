"""Streams: records that each stand for themselves."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from statestores.errors import InvalidArgumentError, InvalidTopologyError, InvalidTypeError
from statestores.processing.dsl import stream_joins
from statestores.processing.dsl.global_table import GlobalTable
from statestores.processing.dsl.grouped import GroupedStream
from statestores.processing.dsl.processor_steps import ProcessorSteps
from statestores.processing.dsl.table import Table
from statestores.processing.fields import Expression, Selector
from statestores.processing.functions import ONE_RECORD, check_function
from statestores.processing.operators import stateless
from statestores.processing.operators.ends import Sink
from statestores.processing.operators.operator import Pass
from statestores.processing.operators.stream_stream import JoinWindow
from statestores.processing.record import Record
from statestores.processing.stores import AnyKeyValue
from statestores.processing.topic import Topic
from statestores.serdes import float64, int64, int64_sorted, json, msgpack, raw, utf8
from statestores.serdes.windowed_serde import WindowedSerde
from statestores.spi import Serde, Versioned

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")

How = Literal["inner", "left", "outer"]

_PLAIN = (raw, utf8, int64, int64_sorted, float64, json, msgpack)
"""Serdes that have no windows in their keys."""


class Stream(ProcessorSteps[K, V]):
    """Records of one type in a topology. Made by `Topology.stream`, and by the methods here."""

    def __repr__(self) -> str:
        return f"Stream({self._node!r} of {self._builder.name!r})"

    # Ways apart and together.

    def split(
        self,
        *predicates: Callable[[Record[K, V]], object],
        rest: bool = False,
        name: str | None = None,
    ) -> "list[Stream[K, V]]":
        """Give each record to the first branch whose predicate is true.

        Returns a stream for each predicate, and with *rest* one more for what none of them wants.
        Without *rest*, that goes no further, and is not counted: it was not asked for.

        Raises:
            InvalidArgumentError: There is no predicate.
            InvalidTypeError: One is no function of a record.
        """
        if not predicates:
            raise InvalidArgumentError("split needs at least one predicate")
        for predicate in predicates:
            check_function("split", predicate, ONE_RECORD)
        chosen = name or self._builder.unused(self._node, "split")
        children = [f"{chosen}-{number}" for number in range(len(predicates))]
        last = f"{chosen}-rest" if rest else None
        branches = list(zip(children, predicates, strict=True))
        self._step("split", lambda: stateless.Split(branches, last), chosen)
        if last is not None:
            children.append(last)
        for child in children:
            self._builder.step("branch", (chosen,), Pass, name=child)
        return [
            self._stream(child, self._key, self._value, child, is_rekeyed=self._is_rekeyed)
            for child in children
        ]

    def merge(self, *others: "Stream[K, V]", name: str | None = None) -> "Stream[K, V]":
        """Go on with the records of this stream and of *others*, as they come.

        They come in the order of their times as far as the task has them at hand (PRC-11). The
        serdes are known after it where all streams have the same.

        Raises:
            InvalidTypeError: One of *others* is no stream.
        """
        streams = (self, *others)
        for each in streams:
            if not isinstance(each, Stream):
                raise InvalidTypeError(
                    f"a stream merges with streams, got {each!r}; of a table, take to_stream()"
                )
        node = self._builder.step(
            "merge", tuple(dict.fromkeys(each._node for each in streams)), Pass, name=name
        )
        return Stream(
            self._builder,
            node,
            self._key if all(each._key == self._key for each in streams) else None,
            self._value if all(each._value == self._value for each in streams) else None,
            origin=name or self._origin,
            is_rekeyed=any(each._is_rekeyed for each in streams),
        )

    def to(self, topic: Topic[K, V], *, name: str | None = None) -> None:
        """Write the records to *topic*.

        Raises:
            InvalidTypeError: It is no topic.
            InvalidTopologyError: The keys have windows, and the topic's serde of keys none.
        """
        if not isinstance(topic, Topic):
            raise InvalidTypeError(f"records go to a Topic, such as Topic('words'), got {topic!r}")
        if isinstance(self._key, WindowedSerde) and topic.key in _PLAIN:
            raise InvalidTopologyError(
                f"the keys of {self._origin!r} have windows, and {topic.name!r} has keys of "
                f"{topic.key.name!r}; give it key=windowed({self._key.inner.name}), or rekey first"
            )
        chosen = name or self._builder.unused(self._node, f"to-{topic.name}")
        self._step("sink", lambda: Sink(topic), chosen, writes=topic)

    def repartition(
        self,
        name: str | None = None,
        *,
        partitions: int | None = None,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        partitioner: str = "murmur2",
    ) -> "Stream[K, V]":
        """Send the records through a topic of the topology's own, partitioned by their keys.

        Records without key are dropped, and counted.

        Args:
            name: What the topic is called, between the topology's name and ``-repartition``.
            partitions: How many it has; by default as many as what it is joined with, or as the
                runner says.
            key: The serde of the keys; by default as far as it is known, else JSON.
            value: The serde of the values, likewise.
            partitioner: The name of what chooses a key's partition.
        """
        known_key, known_value = key or self._key or json, value or self._value or json
        node = self._builder.repartition(
            self._node,
            name or self._origin,
            known_key,
            known_value,
            partitions=partitions,
            partitioner=partitioner,
        )
        return Stream(
            self._builder, node, known_key, known_value, origin=name or f"{self._origin}-again"
        )

    # Grouping and joining.

    @overload
    def group_by(
        self,
        select: Callable[[Record[K, V]], K2],
        *,
        key: Serde[K2] | None = ...,
        value: Serde[V] | None = ...,
    ) -> GroupedStream[K2, V]: ...
    @overload
    def group_by(
        self, select: str | Expression, *, key: Serde[K2], value: Serde[V] | None = ...
    ) -> GroupedStream[K2, V]: ...
    @overload
    def group_by(
        self, select: str | Expression, *, value: Serde[V] | None = ...
    ) -> GroupedStream[Any, V]: ...
    def group_by(
        self, select: Selector | Expression, *, key: Any = None, value: Any = None
    ) -> GroupedStream[Any, V]:
        """Group by another key than the record's own: `rekey`, then `group_by_key`."""
        rekeyed: Stream[Any, V] = self.rekey(select, key=key)
        return rekeyed.group_by_key(value=value)

    def group_by_key(
        self, *, key: Serde[K] | None = None, value: Serde[V] | None = None
    ) -> GroupedStream[K, V]:
        """Group by the records' keys."""
        return GroupedStream(
            self._builder,
            self._node,
            key or self._key,
            value or self._value,
            needs_repartition=self._is_rekeyed,
        )

    def to_table(self, store: AnyKeyValue[K, V] | Versioned[K, V]) -> Table[K, V]:
        """Take each record for the new value of its key's row; no value deletes it."""
        node = self._partitioned(store.name, store.key or json, store.value or json)
        return Table.kept(self._builder, node, store)

    @overload
    def join(
        self,
        other: "Stream[K, V2]",
        joiner: Callable[[V, V2], V3],
        *,
        within: JoinWindow,
        how: How = ...,
        name: str | None = ...,
        value: Serde[V3] | None = ...,
    ) -> "Stream[K, V3]": ...
    @overload
    def join(
        self,
        other: Table[K, V2],
        joiner: Callable[[V, V2], V3],
        *,
        how: How = ...,
        name: str | None = ...,
        value: Serde[V3] | None = ...,
    ) -> "Stream[K, V3]": ...
    @overload
    def join(
        self,
        other: GlobalTable[K2, V2],
        joiner: Callable[[V, V2], V3],
        *,
        key: Selector,
        how: How = ...,
        name: str | None = ...,
        value: Serde[V3] | None = ...,
    ) -> "Stream[K, V3]": ...
    def join(
        self,
        other: Any,
        joiner: Callable[[V, Any], V3],
        *,
        within: JoinWindow | None = None,
        key: Selector | None = None,
        how: How = "inner",
        name: str | None = None,
        value: Serde[V3] | None = None,
    ) -> "Stream[K, V3]":
        """Join with another stream, with a table, or with a global table.

        Args:
            other: A stream: records of the same key that are *within* a time. A table: the row of
                the record's key, as of the record's time if the table is versioned. A global table:
                the row of what *key* takes from the record.
            joiner: From the value here and the value there to the value of the result.
            within: How far apart two records may be; for streams.
            key: What names the row; for global tables.
            how: ``inner``; ``left``: what has no match comes out with ``None``; ``outer``, of
                streams alone: what has none on either side.
            name: The join's name, for its stores; by default made of both sides' names.
            value: The serde of the results, for what comes after.

        Raises:
            InvalidTypeError: *other* is neither, or *joiner* is no function of two values.
            InvalidArgumentError: *within* or *key* is missing or too much, or *how* is unknown.
        """
        if isinstance(other, Stream):
            if within is None or key is not None:
                raise InvalidArgumentError(
                    "a join of two streams needs within=within(...), how far apart their records "
                    "may be, and no key"
                )
            node, chosen, serde = stream_joins.with_stream(
                self, other, joiner, window=within, how=how, name=name
            )
        elif isinstance(other, (Table, GlobalTable)):
            if within is not None:
                raise InvalidArgumentError("within=... is for a join of two streams")
            node, chosen, serde = stream_joins.with_table(
                self, other, joiner, key=key, how=how, name=name
            )
        else:
            raise InvalidTypeError(f"a stream joins a stream or a table, got {other!r}")
        is_rekeyed = self._is_rekeyed and isinstance(other, GlobalTable)
        return Stream(self._builder, node, serde, value, origin=chosen, is_rekeyed=is_rekeyed)

    def join_as_of(
        self,
        table: Table[K, V2],
        joiner: Callable[[V, V2], V3] | Expression,
        *,
        how: Literal["inner", "left"] = "inner",
        wait_ms: int = 0,
        name: str | None = None,
        value: Serde[V3] | None = None,
    ) -> "Stream[K, V3]":
        """Join each record with the row that its key had at the record's time.

        The joiner is a function of both values, or an Arrow expression of ``value`` and ``other``.

        With *wait_ms*, a record waits until the stream has come so far past it, so that a row may
        come late; records then come out in the order of their times.

        Raises:
            InvalidTopologyError: The table is not versioned.
        """
        node, chosen, serde = stream_joins.as_of(
            self, table, joiner, how=how, wait_ms=wait_ms, name=name
        )
        return Stream(self._builder, node, serde, value, origin=chosen)
