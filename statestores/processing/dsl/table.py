"""Tables: the last value of each key, and how it changes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from statestores.errors import InvalidArgumentError, InvalidTopologyError, InvalidTypeError
from statestores.processing.dsl.builder import Builder, check_how
from statestores.processing.dsl.equal_key import equal_key_join, meet_again
from statestores.processing.dsl.foreign_key import foreign_key_join
from statestores.processing.dsl.nodes import TableNode
from statestores.processing.fields import Selector, selector
from statestores.processing.operators.operator import Operator
from statestores.processing.operators.suppress import Suppress, Suppression
from statestores.processing.operators.table_joins import How, JoinedRows, TableStore
from statestores.processing.operators.tables import (
    MakeLookup,
    TableFilter,
    TableMapValues,
    TableRegroup,
    TableSource,
    ToStream,
    VersionedTableSource,
    stored_lookup,
)
from statestores.processing.record import Record
from statestores.processing.serdes import ChangeSerde, RecordCodec
from statestores.processing.stores import (
    AnyKeyValue,
    key_serde,
    rows_store,
    table_store,
    timestamped,
    value_serde,
)
from statestores.processing.topic import Topic
from statestores.processing.windows import check_count, check_duration
from statestores.serdes import json
from statestores.spi import KeyValue, Serde, StoreSpecification, TimestampedKeyValue, Versioned

if TYPE_CHECKING:
    from statestores.processing.dsl.grouped import GroupedTable
    from statestores.processing.dsl.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")


class Table(TableNode[K, V]):
    """Rows of one type in a topology. Made by `Topology.table`, by aggregates, and here."""

    def __repr__(self) -> str:
        return f"Table({self._node!r} of {self._builder.name!r})"

    @classmethod
    def kept(
        cls,
        builder: Builder,
        parent: str,
        store: AnyKeyValue[Any, Any] | Versioned[Any, Any],
        *,
        topic: Topic[Any, Any] | None = None,
    ) -> "Table[Any, Any]":
        """Return the table whose rows are the records of *parent*, in *store*."""
        if not isinstance(store, (KeyValue, TimestampedKeyValue, Versioned)):
            raise InvalidTypeError(
                f"a table is kept in a statestores.KeyValue or Versioned, got {store!r}"
            )
        own = table_store(store)
        name = store.name
        is_versioned = isinstance(own, Versioned)
        make = VersionedTableSource if is_versioned else TableSource
        node = builder.step("table", (parent,), lambda: make(name), name=name, stores=(own,))
        return Table(
            builder,
            node,
            key_serde(own),
            value_serde(own),
            stored_lookup(name, versioned=is_versioned),
            (own,),
            origin=name,
            is_versioned=is_versioned,
        )

    # Row by row.

    def to_stream(self, *, name: str | None = None) -> "Stream[K, V]":
        """Return every change as a record with the new value; none for a deletion."""
        node = self._builder.step("to_stream", (self._node,), ToStream, name=name)
        stream: Stream[K, V] = self._builder.stream(
            self._builder, node, self._key, self._value, origin=name or self._origin
        )
        return stream

    def to(self, topic: Topic[K, V], *, name: str | None = None) -> None:
        """Write every change to *topic*: `to_stream`, then `Stream.to`."""
        self.to_stream().to(topic, name=name)

    def filter(
        self,
        predicate: Callable[[Record[K, V]], object],
        store: AnyKeyValue[K, V] | None = None,
        *,
        name: str | None = None,
    ) -> "Table[K, V]":
        """Keep the rows of which *predicate* is true; a row that was kept and is not is deleted."""
        return self._filtered("filter", predicate, store, name, keep=True)

    def filter_not(
        self,
        predicate: Callable[[Record[K, V]], object],
        store: AnyKeyValue[K, V] | None = None,
        *,
        name: str | None = None,
    ) -> "Table[K, V]":
        """Keep the rows of which *predicate* is false."""
        return self._filtered("filter_not", predicate, store, name, keep=False)

    def map_values(
        self,
        function: Callable[[V], V2],
        store: AnyKeyValue[K, V2] | None = None,
        *,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> "Table[K, V2]":
        """Give each row the value that *function* makes of its own."""
        own = None if store is None else timestamped(store)
        kept = None if own is None else own.name
        table = self._with_rows()

        def make() -> TableMapValues:
            return TableMapValues(function, kept, versioned=table._is_versioned)

        lookup = make().lookup_of(table._lookup)
        serde = value if own is None else value_serde(own)
        return table._derived("map_values", make, lookup, own, serde, name)

    def suppress(
        self,
        *,
        until_closed: bool = False,
        wait_ms: int | None = None,
        max_rows: int | None = None,
        when_full: Literal["emit", "fail"] = "emit",
        name: str | None = None,
    ) -> "Table[K, V]":
        """Hold updates of a row back, and give on the last of them (KIP-328).

        Args:
            until_closed: Until the row's window is closed; for windowed tables.
            wait_ms: For so long after the first update, by stream time.
            max_rows: While at most so many rows wait.
            when_full: What one more does: send out the oldest, or fail the task.
            name: The step's name, and its store's.

        Raises:
            InvalidArgumentError: Nothing ends the wait, or two things do.
            InvalidTopologyError: The rows have no windows that could close.
        """
        if until_closed is (wait_ms is not None) and (until_closed or max_rows is None):
            raise InvalidArgumentError(
                "suppress needs until_closed=True, or wait_ms=..., or max_rows=..."
            )
        if wait_ms is not None:
            check_duration("wait_ms", wait_ms)
        if max_rows is not None:
            check_count("max_rows", max_rows, least=0)
        if until_closed and self._windows is None:
            raise InvalidTopologyError(
                f"the rows of {self._origin!r} have no windows that could close; use wait_ms"
            )
        chosen = name or f"{self._origin}-suppress"
        table = self._with_rows()
        suppression = Suppression(
            wait_ms=wait_ms,
            windows=self._windows if until_closed else None,
            max_rows=max_rows,
            when_full=when_full,
        )
        serdes = table._key or json, table._value or json
        codec, store = RecordCodec(*serdes), KeyValue(f"{chosen}-waiting")

        def make() -> Suppress:
            return Suppress(suppression, codec, store.name)

        node = self._builder.step(
            "suppress",
            (table._node,),
            make,
            name=chosen,
            stores=(store,),
            own_keys=(store.name,),
            form=suppression.form,
            waiting=serdes,
            follows_rows=until_closed,
        )
        return Table(
            self._builder,
            node,
            table._key,
            table._value,
            make().lookup_of(table._lookup),
            (*table._stores, store),
            origin=chosen,
            windows=self._windows,
        )

    # Grouping and joining.

    def group_by(
        self,
        key: Selector | Callable[[Record[K, V]], K2],
        value: Selector | Callable[[Record[K, V]], V2] = "value",
        *,
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V2] | None = None,
    ) -> "GroupedTable[K2, V2]":
        """Group the rows by other keys: an aggregate follows each row as it changes and moves."""
        of_key, of_value, is_versioned = selector(key), selector(value), self._is_versioned
        table = self._with_rows()
        node = self._builder.step(
            "group_by",
            (table._node,),
            lambda: TableRegroup(of_key, of_value, versioned=is_versioned),
        )
        inner = value_serde or (table._value if value == "value" else None) or json
        group: GroupedTable[K2, V2] = self._builder.grouped_table(
            self._builder, node, key_serde, ChangeSerde(inner)
        )
        return group

    @overload
    def join(
        self,
        other: "Table[K, V2]",
        joiner: Callable[[V, V2], V3],
        store: AnyKeyValue[K, V3] | None = ...,
        *,
        how: How = ...,
        name: str | None = ...,
    ) -> "Table[K, V3]": ...
    @overload
    def join(
        self,
        other: "Table[K2, V2]",
        joiner: Callable[[V, V2], V3],
        store: AnyKeyValue[K, V3] | None = ...,
        *,
        foreign_key: Callable[[V], K2],
        how: How = ...,
        name: str | None = ...,
    ) -> "Table[K, V3]": ...
    def join(
        self,
        other: "Table[Any, V2]",
        joiner: Callable[[V, V2], V3],
        store: AnyKeyValue[K, V3] | None = None,
        *,
        foreign_key: Callable[[V], Any] | None = None,
        how: How = "inner",
        name: str | None = None,
    ) -> "Table[K, V3]":
        """Join with the rows of another table: each change of either side gives the row anew.

        The result has the later time of both rows, and is deleted where there is none any more.
        With equal keys, both tables have to be partitioned alike; with *foreign_key*, rows are sent
        to the other side and back through two topics of the topology's own.

        Args:
            other: The other table.
            joiner: From the value here and the value there to the value of the result.
            store: Where the results are kept, if they are to be read. Where both sides follow one
                table they are kept anyway: as JSON, unless a store says otherwise.
            foreign_key: What in a value names the row there; by default the keys are equal.
            how: ``inner``; ``left``: rows without match have ``None``; ``outer``: on both sides.
            name: The join's name; by default made of both sides' names.

        Raises:
            InvalidTypeError: The other side is no table, or what is to be called is no function.
            InvalidArgumentError: *how* is none of these; with *foreign_key*, there is no ``outer``.
            InvalidTopologyError: When the topology is built: the tables are not partitioned alike.
        """
        if not isinstance(other, Table):
            raise InvalidTypeError(f"a table joins a table, got {other!r}")
        chosen = name or f"{self._origin}-join-{other._origin}"
        own = None if store is None else timestamped(store)
        left, right = self._with_rows(), other._with_rows()
        if foreign_key is not None:
            check_how(how, ("inner", "left"))
            node = foreign_key_join(
                left, right, foreign_key, joiner, is_left_join=how == "left", name=chosen
            )
            return self._joined(node, chosen, own, None)
        is_kept = meet_again(left, right)
        node, lookup = equal_key_join(left, right, joiner, how, name=chosen, is_kept=is_kept)
        if is_kept:
            return self._in_store(node, own or rows_store(chosen, self._key), JoinedRows)
        stores = {each.name: each for each in (*left._stores, *right._stores)}
        return self._joined(node, chosen, own, lookup, tuple(stores.values()))

    # What the methods share.

    def _with_rows(self) -> "Table[K, V]":
        return self

    def _joined(
        self,
        node: str,
        name: str,
        store: AnyKeyValue[Any, Any] | None,
        lookup: MakeLookup | None,
        stores: tuple[StoreSpecification[Any, Any], ...] = (),
    ) -> "Table[Any, Any]":
        """Return the table that *node* joins; without *lookup* its rows are kept when asked for."""
        if store is not None:
            return self._in_store(node, store)
        if lookup is not None:
            return Table(self._builder, node, self._key, None, lookup, stores, origin=name)
        return UnkeptTable(self._builder, node, self._key, name)

    def _in_store(
        self, node: str, store: AnyKeyValue[Any, Any], keep: type[TableStore] = TableStore
    ) -> "Table[Any, Any]":
        """Return the table whose changes *node* gives, kept in *store* by *keep*."""
        kept = store.name
        own: Any = {"name": f"{kept}.keep", "stores": (store,), "follows_rows": True}
        node = self._builder.step("keep", (node,), lambda: keep(kept), **own)
        found = stored_lookup(kept, versioned=False)
        return Table(
            self._builder, node, key_serde(store), value_serde(store), found, (store,), origin=kept
        )

    def _filtered(
        self,
        kind: str,
        predicate: Callable[[Record[K, V]], object],
        store: AnyKeyValue[K, V] | None,
        name: str | None,
        *,
        keep: bool,
    ) -> "Table[K, V]":
        own = None if store is None else timestamped(store)
        kept = None if own is None else own.name
        table = self._with_rows()

        def make() -> TableFilter:
            return TableFilter(predicate, keep=keep, store=kept, versioned=table._is_versioned)

        lookup = make().lookup_of(table._lookup)
        serde = table._value if own is None else value_serde(own)
        return table._derived(kind, make, lookup, own, serde, name)

    def _derived(
        self,
        kind: str,
        make: Callable[[], Operator],
        lookup: MakeLookup,
        store: AnyKeyValue[Any, Any] | None,
        value: Serde[Any] | None,
        name: str | None,
    ) -> "Table[Any, Any]":
        stores: tuple[StoreSpecification[Any, Any], ...] = self._stores
        if store is not None:
            lookup, stores = stored_lookup(store.name, versioned=False), (store,)
        chosen = name or (None if store is None else store.name)
        own: Any = {} if store is None else {"stores": (store,), "follows_rows": True}
        node = self._builder.step(kind, (self._node,), make, name=chosen, **own)
        return Table(
            self._builder,
            node,
            self._key,
            value,
            lookup,
            stores,
            origin=chosen or self._origin,
            windows=self._windows,
            is_versioned=self._is_versioned and store is None,
            is_derived=store is None,
        )


class UnkeptTable(Table[K, V]):
    """Rows that nobody keeps: a change does not say what the row was (a join by a foreign key).

    Who needs that, or has to find the rows, has them kept, once, in a store of the join's name.
    """

    def __init__(self, builder: Builder, node: str, key: Serde[Any] | None, name: str) -> None:
        """Stand for the rows that *node* changes, of the join *name*."""
        lookup = stored_lookup(f"{name}-rows", versioned=False)  # once they are kept
        super().__init__(builder, node, key, None, lookup, (), origin=name)
        self._kept: Table[K, V] | None = None

    def _with_rows(self) -> Table[K, V]:
        if self._kept is None:
            self._kept = self._in_store(self._node, rows_store(self._origin, self._key))
        return self._kept
