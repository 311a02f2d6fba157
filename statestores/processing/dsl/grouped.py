"""Groups: what aggregates are made of."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from statestores.errors import InvalidArgumentError
from statestores.processing.dsl.builder import Builder
from statestores.processing.dsl.nodes import GroupNode
from statestores.processing.dsl.table import Table
from statestores.processing.dsl.windowed import WindowedStream
from statestores.processing.fields import Selector
from statestores.processing.operators import fold as folds
from statestores.processing.operators.aggregates import Aggregate, TableAggregate
from statestores.processing.operators.fold import Fold, beginning
from statestores.processing.operators.operator import Pass
from statestores.processing.operators.table_extremes import TableExtreme
from statestores.processing.operators.tables import result_lookup, stored_lookup
from statestores.processing.stores import AnyKeyValue, key_serde, timestamped, value_serde
from statestores.processing.windows import Windows
from statestores.serdes.mean_serde import MEANS
from statestores.spi import KeyValue, Serde

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
V2 = TypeVar("V2")


class GroupedStream(GroupNode[K, V]):
    """Records by key. Made by `Stream.group_by` and `Stream.group_by_key`."""

    def window(self, windows: Windows) -> WindowedStream[K, V]:
        """Cut each group by time: `tumbling`, `hopping`, `sliding` or `session`."""
        return WindowedStream(self, windows)

    def count(self, store: AnyKeyValue[K, int]) -> Table[K, int]:
        """Count the records of each key."""
        return self._aggregate("count", folds.count(), store)

    def sum(self, of: Selector, store: AnyKeyValue[K, A]) -> Table[K, A]:
        """Add up what *of* takes from each record."""
        return self._aggregate("sum", folds.total(of), store)

    def min(self, of: Selector, store: AnyKeyValue[K, A]) -> Table[K, A]:
        """Keep the lowest of what *of* takes from the records."""
        return self._aggregate("min", folds.least(of), store)

    def max(self, of: Selector, store: AnyKeyValue[K, A]) -> Table[K, A]:
        """Keep the highest of what *of* takes from the records."""
        return self._aggregate("max", folds.greatest(of), store)

    def mean(self, of: Selector, store: AnyKeyValue[K, float]) -> Table[K, float]:
        """Average what *of* takes from each record. The store keeps the sum and the count."""
        return self._aggregate("mean", folds.mean(of), store)

    def reduce(self, function: Callable[[V, V], V], store: AnyKeyValue[K, V]) -> Table[K, V]:
        """Make one value of all, from the first on: *function* gets the one so far and the next."""
        return self._aggregate("reduce", folds.reduction(function, None), store)

    def aggregate(
        self,
        initial: Callable[[], A] | A,
        add: Callable[[A, V], A | None],
        store: AnyKeyValue[K, A],
    ) -> Table[K, A]:
        """Fold the values of each key: *add* gets the aggregate so far and a value.

        *initial* is what there is before the first, or a function that makes it. When *add* returns
        ``None`` the aggregate is deleted, and the next value begins anew.

        Raises:
            InvalidTypeError: A function has other arguments, *initial* would be shared by all keys,
                or *store* is no key-value store.
        """
        return self._aggregate("aggregate", Fold(initial=beginning(initial), add=add), store)

    def cogroup(self, add: Callable[[A, V], A | None]) -> "Cogrouped[K, A]":
        """Begin an aggregate of several groups, each with a fold of its own (KIP-150)."""
        return Cogrouped(((self, add),))

    def _aggregate(self, kind: str, fold: Fold, store: AnyKeyValue[Any, Any]) -> Table[Any, Any]:
        return aggregated(self._builder, ((self, fold),), kind, store)


class Cogrouped(Generic[K, A]):
    """Several groups of one key type, each with a fold. Made by `GroupedStream.cogroup`."""

    def __init__(
        self, groups: tuple[tuple[GroupedStream[Any, Any], Callable[[Any, Any], Any]], ...]
    ) -> None:
        """Fold each of *groups* by its function."""
        self.groups = groups

    def cogroup(
        self, group: GroupedStream[K, V2], add: Callable[[A, V2], A | None]
    ) -> "Cogrouped[K, A]":
        """Add one more group."""
        return Cogrouped((*self.groups, (group, add)))

    def window(self, windows: Windows) -> "WindowedCogrouped[K, A]":
        """Cut the groups by time."""
        return WindowedCogrouped(self, windows)

    def aggregate(self, initial: Callable[[], A] | A, store: AnyKeyValue[K, A]) -> Table[K, A]:
        """Fold all groups into one aggregate for each key."""
        begin = beginning(initial)
        pairs = tuple((group, Fold(initial=begin, add=add)) for group, add in self.groups)
        return aggregated(self.groups[0][0]._builder, pairs, "cogroup", store)


class WindowedCogrouped(Generic[K, A]):
    """Several groups, cut by time. Made by `Cogrouped.window`."""

    def __init__(self, cogrouped: Cogrouped[K, A], windows: Windows) -> None:
        """Cut *cogrouped* by *windows*."""
        self._cogrouped = cogrouped
        self._windows = windows

    def aggregate(
        self,
        initial: Callable[[], A] | A,
        store: Any,
        *,
        merge: Callable[[A, A], A] | None = None,
        emit: Any = None,
    ) -> Table[Any, A]:
        """Fold all groups into one aggregate for each key and window; sessions need *merge*."""
        begin = beginning(initial)
        parts = [
            (WindowedStream(group, self._windows), Fold(initial=begin, add=add, merge=merge))
            for group, add in self._cogrouped.groups
        ]
        first = parts[0][0]
        return first.folded("cogroup", parts, store, emit)


class GroupedTable(Generic[K, V]):
    """Rows by other keys. Made by `Table.group_by`. Folds take out what a row was."""

    def __init__(
        self, builder: Builder, node: str, key: Serde[Any] | None, change: Serde[Any]
    ) -> None:
        """Group what *node* gives, which are changes."""
        self._builder = builder
        self._node = node
        self._key = key
        self._change = change

    def count(self, store: AnyKeyValue[K, int]) -> Table[K, int]:
        """Count the rows of each key."""
        return self._aggregate("count", folds.count(), store)

    def sum(self, of: Selector, store: AnyKeyValue[K, A]) -> Table[K, A]:
        """Add up what *of* takes from each row."""
        return self._aggregate("sum", folds.total(of), store)

    def min(self, of: Selector, store: AnyKeyValue[K, A]) -> Table[K, A]:
        """Keep the lowest of what *of* takes from the rows there are: numbers, texts or bytes.

        All values are kept beside it, in a store of its name and ``-values``, in their order.
        """
        return self._extreme("min", folds.least(of), store, is_highest=False)

    def max(self, of: Selector, store: AnyKeyValue[K, A]) -> Table[K, A]:
        """Keep the highest of what *of* takes from the rows there are; see `min`."""
        return self._extreme("max", folds.greatest(of), store, is_highest=True)

    def mean(self, of: Selector, store: AnyKeyValue[K, float]) -> Table[K, float]:
        """Average what *of* takes from each row; of no row there is no mean (PRC-15)."""
        return self._aggregate("mean", folds.mean(of), store)

    def reduce(
        self,
        add: Callable[[V, V], V],
        subtract: Callable[[V, V], V],
        store: AnyKeyValue[K, V],
    ) -> Table[K, V]:
        """Make one value of all rows of a key; *subtract* takes out what a row was."""
        return self._aggregate("reduce", folds.reduction(add, subtract), store)

    def aggregate(
        self,
        initial: Callable[[], A] | A,
        add: Callable[[A, V], A | None],
        subtract: Callable[[A, V], A | None],
        store: AnyKeyValue[K, A],
    ) -> Table[K, A]:
        """Fold the rows of each key; *subtract* takes out what a row was."""
        fold = Fold(initial=beginning(initial), add=add, subtract=subtract)
        return self._aggregate("aggregate", fold, store)

    def _aggregate(self, kind: str, fold: Fold, store: AnyKeyValue[Any, Any]) -> Table[Any, Any]:
        own = timestamped(store, MEANS if kind == "mean" else None)
        name = own.name
        parent = self._repartitioned(own)
        node = self._builder.step(
            kind,
            (parent,),
            lambda: TableAggregate(fold, name),
            name=name,
            stores=(own,),
            form=(),
            follows_rows=True,
        )
        return _table(self._builder, node, own, fold)

    def _extreme(
        self, kind: str, fold: Fold, store: AnyKeyValue[Any, Any], *, is_highest: bool
    ) -> Table[Any, Any]:
        own = timestamped(store)
        name, values = own.name, KeyValue(f"{own.name}-values")
        node = self._builder.step(
            kind,
            (self._repartitioned(own),),
            lambda: TableExtreme(fold, name, values.name, is_highest=is_highest),
            name=name,
            stores=(own, values),
            own_keys=(values.name,),
            form=(),
            follows_rows=True,
        )
        return _table(self._builder, node, own, fold)

    def _repartitioned(self, own: AnyKeyValue[Any, Any]) -> str:
        return self._builder.repartition(
            self._node, own.name, self._key or key_serde(own), self._change
        )


def aggregated(
    builder: Builder,
    groups: tuple[tuple[GroupedStream[Any, Any], Fold], ...],
    kind: str,
    store: AnyKeyValue[Any, Any],
) -> Table[Any, Any]:
    """Return the table that one or several groups are folded into."""
    own = timestamped(store, MEANS if kind == "mean" else None)
    name = own.name
    if not groups:
        raise InvalidArgumentError("an aggregate needs a group")
    sides = []
    for number, (group, fold) in enumerate(groups):
        purpose = name if len(groups) == 1 else f"{name}-{number}"
        parent = group.partitioned(purpose, key_serde(own))
        sides.append(
            builder.step(
                kind,
                (parent,),
                lambda fold=fold: Aggregate(fold, name),  # type: ignore[misc]
                name=purpose,
                stores=(own,),
                form=(),
            )
        )
    node = sides[0]
    if len(sides) > 1:
        parents = tuple(sides)
        node = builder.step("merge", parents, Pass, name=name, co_partitioned=parents)
    return _table(builder, node, own, groups[0][1])


def _table(
    builder: Builder, node: str, store: AnyKeyValue[Any, Any], fold: Fold
) -> Table[Any, Any]:
    value = value_serde(store) if fold.result is None else None
    lookup = result_lookup(stored_lookup(store.name, versioned=False), fold.result)
    return Table(builder, node, key_serde(store), value, lookup, (store,), origin=store.name)
