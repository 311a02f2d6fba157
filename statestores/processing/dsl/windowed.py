"""Groups that are cut by time, and their aggregates."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from statestores.errors import InvalidArgumentError, InvalidTopologyError, InvalidTypeError
from statestores.processing.dsl.nodes import GroupNode
from statestores.processing.dsl.table import Table
from statestores.processing.fields import Selector
from statestores.processing.operators import fold as folds
from statestores.processing.operators.fold import Fold, beginning
from statestores.processing.operators.operator import Operator, Pass
from statestores.processing.operators.sessions import SessionWindowed
from statestores.processing.operators.sliding import SlidingWindowed
from statestores.processing.operators.tables import result_lookup
from statestores.processing.operators.windowed import TimeWindowed, window_lookup
from statestores.processing.stores import (
    key_serde,
    session_store,
    stamped_window,
    value_serde,
)
from statestores.processing.windows import (
    Emission,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    Windows,
    updates,
)
from statestores.serdes.mean_serde import MEANS
from statestores.serdes.windowed_serde import Windowed, WindowedSerde
from statestores.spi import KeyValue, Session, Window

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class WindowedStream(Generic[K, V]):
    """Records by key and window. Made by `GroupedStream.window`.

    Every aggregate keeps its windows in *store*: a `statestores.Window` of the size of the windows
    or, for sessions, a `statestores.Session`, with a retention of at least the windows' size and
    grace. *emit* says what comes out: `updates()`, by default, each change of a window; `closed()`
    each window once, when nothing on time can change it any more. A record that comes later than
    the grace allows changes no window; it is dropped, and counted.

    Every aggregate raises `InvalidTypeError` for a store of another kind, or an *emit* that is
    none, and `InvalidTopologyError` where the store keeps windows for too short a time or is of
    windows of another size.
    """

    def __init__(self, group: GroupNode[K, V], windows: Windows) -> None:
        """Cut *group* by *windows*."""
        if not isinstance(windows, (TimeWindows, SlidingWindows, SessionWindows)):
            raise InvalidTypeError(
                "windows are made by tumbling, hopping, sliding or session, such as "
                f"tumbling(60_000); got {windows!r}"
            )
        self._group = group
        self._windows = windows

    def count(
        self, store: Window[K, int] | Session[K, int], *, emit: Emission | None = None
    ) -> Table[Windowed[K], int]:
        """Count the records of each key and window; those without value do not count (PRC-14)."""
        return self._aggregate("count", folds.count(), store, emit)

    def sum(
        self,
        of: Selector,
        store: Window[K, A] | Session[K, A],
        *,
        emit: Emission | None = None,
    ) -> Table[Windowed[K], A]:
        """Add up what *of*, a path or a function of the record, takes from each record."""
        return self._aggregate("sum", folds.total(of), store, emit)

    def min(
        self,
        of: Selector,
        store: Window[K, A] | Session[K, A],
        *,
        emit: Emission | None = None,
    ) -> Table[Windowed[K], A]:
        """Keep the lowest of what *of* takes from the records of a window."""
        return self._aggregate("min", folds.least(of), store, emit)

    def max(
        self,
        of: Selector,
        store: Window[K, A] | Session[K, A],
        *,
        emit: Emission | None = None,
    ) -> Table[Windowed[K], A]:
        """Keep the highest of what *of* takes from the records of a window."""
        return self._aggregate("max", folds.greatest(of), store, emit)

    def mean(
        self,
        of: Selector,
        store: Window[K, float] | Session[K, float],
        *,
        emit: Emission | None = None,
    ) -> Table[Windowed[K], float]:
        """Average what *of* takes from each record of a window.

        The store keeps the sum and the count, whatever serde of values it was declared with.
        """
        return self._aggregate("mean", folds.mean(of), store, emit)

    def reduce(
        self,
        function: Callable[[V, V], V],
        store: Window[K, V] | Session[K, V],
        *,
        emit: Emission | None = None,
    ) -> Table[Windowed[K], V]:
        """Make one value of all of a window, from its first on.

        *function* gets the value so far and the next; of two sessions that grow together, the
        values of both.
        """
        return self._aggregate("reduce", folds.reduction(function, None), store, emit)

    def aggregate(
        self,
        initial: Callable[[], A] | A,
        add: Callable[[A, V], A | None],
        store: Window[K, A] | Session[K, A],
        *,
        merge: Callable[[A, A], A] | None = None,
        emit: Emission | None = None,
    ) -> Table[Windowed[K], A]:
        """Fold the values of each key and window.

        Args:
            initial: What a window begins with, or a function that makes it.
            add: From the aggregate and a value to the new aggregate; ``None`` deletes the window.
            store: Where the windows are kept.
            merge: From the aggregates of two sessions that grow together to one; sessions need it.
            emit: What comes out, and when.

        Raises:
            InvalidArgumentError: The windows are sessions, and *merge* is missing.
            InvalidTypeError, InvalidTopologyError: As every aggregate.
        """
        fold = Fold(initial=beginning(initial), add=add, merge=merge)
        return self._aggregate("aggregate", fold, store, emit)

    def _aggregate(
        self, kind: str, fold: Fold, store: Any, emit: Emission | None
    ) -> Table[Any, Any]:
        return self.folded(kind, [(self, fold)], store, emit)

    def folded(
        self,
        kind: str,
        parts: "Sequence[tuple[WindowedStream[Any, Any], Fold]]",
        store: Any,
        emit: Emission | None,
    ) -> Table[Any, Any]:
        """Return the table that one or several groups are folded into."""
        emission = updates() if emit is None else emit
        if not isinstance(emission, Emission):
            raise InvalidTypeError(f"emit is updates() or closed(), got {emit!r}")
        own = self._own_store(store, kind)
        self._check(own, parts[0][1])
        builder, windows, name = self._group._builder, self._windows, own.name
        pending = KeyValue(f"{name}-pending") if emission.on_close else None
        waiting = None if pending is None else pending.name
        grace = ("grace_ms", windows.grace_ms)  # longer, it would open what has come out as closed
        sides = []
        for number, (part, fold) in enumerate(parts):
            purpose = name if len(parts) == 1 else f"{name}-{number}"
            parent = part._group.partitioned(purpose, key_serde(own))
            sides.append(
                builder.step(
                    kind,
                    (parent,),
                    lambda fold=fold: self._operator(fold, emission, name, waiting),  # type: ignore[misc]
                    name=purpose,
                    stores=(own, *(() if pending is None else (pending,))),
                    own_keys=() if waiting is None else (waiting,),
                    form=windows.form if pending is None else (*windows.form, grace),
                    settings=(("windows", repr(windows)), ("emit", repr(emission))),
                )
            )
        node = sides[0]
        if len(sides) > 1:
            parents = tuple(sides)
            node = builder.step("merge", parents, Pass, name=name, co_partitioned=parents)
        return self._table(node, own, parts[0][1], waiting)

    def _operator(
        self, fold: Fold, emission: Emission, store: str, pending: str | None
    ) -> Operator:
        windows = self._windows
        if isinstance(windows, SessionWindows):
            return SessionWindowed(windows, fold, emission, store, pending)
        if isinstance(windows, SlidingWindows):
            return SlidingWindowed(windows, fold, emission, store, pending)
        return TimeWindowed(windows, fold, emission, store, pending)

    def _own_store(self, store: Any, kind: str) -> Window[Any, Any] | Session[Any, Any]:
        value = MEANS if kind == "mean" else None
        if isinstance(self._windows, SessionWindows):
            return session_store(store, value)
        return stamped_window(store, value)

    def _check(self, store: Window[Any, Any] | Session[Any, Any], fold: Fold) -> None:
        windows = self._windows
        if store.retention_ms < windows.least_retention_ms:
            raise InvalidTopologyError(
                f"the store {store.name!r} keeps windows for {store.retention_ms} ms, and "
                f"{windows!r} needs {windows.least_retention_ms}; raise its retention_ms"
            )
        if isinstance(windows, SessionWindows):
            if fold.merge is None:
                raise InvalidArgumentError(
                    "sessions grow together, so their aggregate needs merge=..., which makes one "
                    "of two"
                )
        elif isinstance(store, Window) and store.window_size_ms != windows.store_size_ms:
            raise InvalidTopologyError(
                f"the store {store.name!r} is of windows of {store.window_size_ms} ms, and these "
                f"are of {windows.store_size_ms}; give it window_size_ms={windows.store_size_ms}"
            )

    def _table(
        self,
        node: str,
        store: Window[Any, Any] | Session[Any, Any],
        fold: Fold,
        pending: str | None,
    ) -> Table[Any, Any]:
        inner = value_serde(store)
        value = None if fold.result is not None else getattr(inner, "inner", inner)
        lookup = window_lookup(store, pending)
        return Table(
            self._group._builder,
            node,
            WindowedSerde(key_serde(store)),
            value,
            result_lookup(lookup, fold.result),
            (store,),
            origin=store.name,
            windows=self._windows,
        )
