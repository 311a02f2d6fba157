"""Steps of a stream that remember nothing: a record, or none, or some, for each."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from statestores.errors import InvalidTypeError
from statestores.processing.dsl.nodes import StreamNode
from statestores.processing.fields import Expression, Selector, is_expression, selector
from statestores.processing.functions import ONE_RECORD, check_function
from statestores.processing.operators import stateless
from statestores.processing.operators.operator import Operator
from statestores.processing.record import Record
from statestores.spi import Serde

if TYPE_CHECKING:
    from statestores.processing.dsl.stream import Stream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class RecordSteps(StreamNode[K, V]):
    """What a stream does record by record."""

    def filter(
        self,
        predicate: Callable[[Record[K, V]], object] | Expression,
        *,
        name: str | None = None,
    ) -> "Stream[K, V]":
        """Keep the records of which *predicate* is true; an expression that is null is not.

        Raises:
            InvalidTypeError: It is no function of a record, and no expression.
        """
        keeps = self._function("filter", predicate)
        return self._same("filter", lambda: stateless.Filter(keeps, keep=True), name)

    def filter_not(
        self,
        predicate: Callable[[Record[K, V]], object] | Expression,
        *,
        name: str | None = None,
    ) -> "Stream[K, V]":
        """Keep the records of which *predicate* is false, or, of an expression, null.

        Raises:
            InvalidTypeError: It is no function of a record, and no expression.
        """
        keeps = self._function("filter_not", predicate)
        return self._same("filter_not", lambda: stateless.Filter(keeps, keep=False), name)

    def peek(
        self, function: Callable[[Record[K, V]], object], *, name: str | None = None
    ) -> "Stream[K, V]":
        """Show each record to *function*, and go on with it unchanged.

        A task that is made anew after a crash shows those since the last commit again.

        Raises:
            InvalidTypeError: It is no function of a record.
        """
        check_function("peek", function, ONE_RECORD)
        return self._same("peek", lambda: stateless.Peek(function), name)

    @overload
    def map(
        self,
        function: Callable[[Record[K, V]], Record[K2, V2]],
        *,
        key: Serde[K2] | None = ...,
        value: Serde[V2] | None = ...,
        name: str | None = ...,
    ) -> "Stream[K2, V2]": ...
    @overload
    def map(
        self,
        function: Callable[[Record[K, V]], V2],
        *,
        value: Serde[V2] | None = ...,
        name: str | None = ...,
    ) -> "Stream[K, V2]": ...
    @overload
    def map(
        self, function: Expression, *, value: Serde[V2], name: str | None = ...
    ) -> "Stream[K, V2]": ...
    @overload
    def map(self, function: Expression, *, name: str | None = ...) -> "Stream[K, Any]": ...
    def map(
        self,
        function: Callable[[Record[K, V]], Any] | Expression,
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> "Stream[Any, Any]":
        """Make a record of each: what *function* returns, or its value if that is no record.

        An expression gives the value; the key stays. What needs equal keys in one partition goes
        through a topic of the topology's own after a function, which may have changed the key.

        Raises:
            InvalidTypeError: It is no function of a record, and no expression.
        """
        if not callable(function):
            return self._evaluated("map", stateless.Map, function, value, name)
        check_function("map", function, ONE_RECORD)
        return self._other("map", lambda: stateless.Map(function), key, value, name)

    @overload
    def map_values(
        self,
        function: Callable[[V], V2],
        *,
        value: Serde[V2] | None = ...,
        name: str | None = ...,
    ) -> "Stream[K, V2]": ...
    @overload
    def map_values(
        self, function: Expression, *, value: Serde[V2], name: str | None = ...
    ) -> "Stream[K, V2]": ...
    @overload
    def map_values(self, function: Expression, *, name: str | None = ...) -> "Stream[K, Any]": ...
    def map_values(
        self,
        function: Callable[[V], Any] | Expression,
        *,
        value: Any = None,
        name: str | None = None,
    ) -> "Stream[K, Any]":
        """Give each record the value that *function* makes of its own; the key stays.

        A record without value is given to it as ``None``, as any other.

        Raises:
            InvalidTypeError: It is no function of a value, and no expression.
        """
        if not callable(function):
            return self._evaluated("map_values", stateless.Map, function, value, name)
        check_function("map_values", function, ("value",))
        return self._revalued("map_values", lambda: stateless.MapValues(function), value, name)

    @overload
    def flat_map(
        self,
        function: Callable[[Record[K, V]], Iterable[Record[K2, V2]]],
        *,
        key: Serde[K2] | None = ...,
        value: Serde[V2] | None = ...,
        name: str | None = ...,
    ) -> "Stream[K2, V2]": ...
    @overload
    def flat_map(
        self,
        function: Callable[[Record[K, V]], Iterable[V2]],
        *,
        value: Serde[V2] | None = ...,
        name: str | None = ...,
    ) -> "Stream[K, V2]": ...
    @overload
    def flat_map(
        self, function: Expression, *, value: Serde[V2], name: str | None = ...
    ) -> "Stream[K, V2]": ...
    @overload
    def flat_map(self, function: Expression, *, name: str | None = ...) -> "Stream[K, Any]": ...
    def flat_map(
        self,
        function: Callable[[Record[K, V]], Iterable[Any]] | Expression,
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> "Stream[Any, Any]":
        """Make any number of records of each: records, or values under the same key.

        An expression gives a list of values. A text, a mapping or a record is no iterable of
        results, and fails the record: give ``[text]``.

        Raises:
            InvalidTypeError: It is no function of a record, and no expression.
        """
        if not callable(function):
            return self._evaluated("flat_map", stateless.FlatMap, function, value, name)
        check_function("flat_map", function, ONE_RECORD)
        return self._other("flat_map", lambda: stateless.FlatMap(function), key, value, name)

    @overload
    def flat_map_values(
        self,
        function: Callable[[V], Iterable[V2]],
        *,
        value: Serde[V2] | None = ...,
        name: str | None = ...,
    ) -> "Stream[K, V2]": ...
    @overload
    def flat_map_values(
        self, function: Expression, *, value: Serde[V2], name: str | None = ...
    ) -> "Stream[K, V2]": ...
    @overload
    def flat_map_values(
        self, function: Expression, *, name: str | None = ...
    ) -> "Stream[K, Any]": ...
    def flat_map_values(
        self,
        function: Callable[[V], Iterable[Any]] | Expression,
        *,
        value: Any = None,
        name: str | None = None,
    ) -> "Stream[K, Any]":
        """Make any number of values of each, in order; the key stays.

        Raises:
            InvalidTypeError: It is no function of a value, and no expression.
        """
        if not callable(function):
            return self._evaluated("flat_map_values", stateless.FlatMap, function, value, name)
        check_function("flat_map_values", function, ("value",))
        return self._revalued(
            "flat_map_values", lambda: stateless.FlatMapValues(function), value, name
        )

    @overload
    def rekey(
        self,
        select: Callable[[Record[K, V]], K2],
        *,
        key: Serde[K2] | None = ...,
        name: str | None = ...,
    ) -> "Stream[K2, V]": ...
    @overload
    def rekey(
        self, select: str | Expression, *, key: Serde[K2], name: str | None = ...
    ) -> "Stream[K2, V]": ...
    @overload
    def rekey(self, select: str | Expression, *, name: str | None = ...) -> "Stream[Any, V]": ...
    def rekey(
        self, select: Selector | Expression, *, key: Any = None, name: str | None = None
    ) -> "Stream[Any, V]":
        """Give each record another key: a path such as ``value.shop``, or a function's result.

        What needs equal keys in one partition after that sends the records through a topic of the
        topology's own. A record whose new key is ``None`` is dropped there, and counted (PRC-31).

        Raises:
            InvalidTypeError, InvalidArgumentError: It is no path and no function of a record.
        """
        if is_expression(select):
            chosen = self._function("rekey", select)
        else:
            chosen = selector(cast("Selector", select))
        path = select if isinstance(select, str) else None
        node = self._step("rekey", lambda: stateless.Rekey(chosen, path), name)
        return self._stream(node, key, self._value, name, is_rekeyed=True)

    # What the methods share.

    def _function(self, kind: str, given: Callable[[Record[K, V]], Any] | Expression) -> Any:
        """Return the function of a record that is given, or that an expression stands for."""
        if callable(given):
            check_function(kind, given, ONE_RECORD)
            return given
        if not is_expression(given):
            raise InvalidTypeError(
                f"{kind} needs a function, or a pyarrow.compute.Expression, got {given!r}"
            )
        from statestores.processing.columns.expressions import OfRecord  # noqa: PLC0415  # Arrow

        return OfRecord(given, self._key, self._value)

    def _evaluated(
        self,
        kind: str,
        make: Callable[[Any], Operator],
        expression: Expression,
        value: Serde[Any] | None,
        name: str | None,
    ) -> "Stream[K, Any]":
        function = self._function(kind, expression)
        return self._revalued(kind, lambda: make(function), value, name)

    def _stream(
        self,
        node: str,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        name: str | None,
        *,
        is_rekeyed: bool,
    ) -> "Stream[Any, Any]":
        stream: Stream[Any, Any] = self._builder.stream(
            self._builder, node, key, value, origin=name or self._origin, is_rekeyed=is_rekeyed
        )
        return stream

    def _same(self, kind: str, make: Callable[[], Operator], name: str | None) -> "Stream[K, V]":
        return self._revalued(kind, make, self._value, name)

    def _revalued(
        self,
        kind: str,
        make: Callable[[], Operator],
        value: Serde[V2] | None,
        name: str | None,
    ) -> "Stream[K, V2]":
        node = self._step(kind, make, name)
        return self._stream(node, self._key, value, name, is_rekeyed=self._is_rekeyed)

    def _other(
        self,
        kind: str,
        make: Callable[[], Operator],
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        name: str | None,
    ) -> "Stream[Any, Any]":
        node = self._step(kind, make, name)
        return self._stream(node, key, value, name, is_rekeyed=True)
