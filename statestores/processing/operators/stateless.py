"""Operators that remember nothing: each record for itself."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from statestores.errors import InvalidTypeError
from statestores.processing.operators.operator import Operator, Receive, fan_out
from statestores.processing.record import Record
from statestores.spi.records import new_tuple

OfRecord = Callable[[Record[Any, Any]], Any]


class Filter(Operator):
    """Keeps the records of which the predicate is true, or false."""

    def __init__(self, predicate: OfRecord, *, keep: bool) -> None:
        """Keep those of which *predicate* is *keep*."""
        self.predicate = predicate
        self.keep = keep

    def receive(self, item: Record[Any, Any]) -> None:
        """Give it on, or not."""
        if bool(self.predicate(item)) is self.keep:
            self.forward(item)


class Map(Operator):
    """A record for each: what the function returns, or its value if that is no record."""

    def __init__(self, function: OfRecord) -> None:
        """Map by *function*."""
        self.function = function

    def receive(self, item: Record[Any, Any]) -> None:
        """Give on what becomes of it."""
        made = self.function(item)
        if type(made) is not Record:
            made = new_tuple(Record, (item[0], made, item[2], item[3]))
        self.forward(made)


class MapValues(Operator):
    """The same record with another value."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        """Map by *function*."""
        self.function = function

    def receive(self, item: Record[Any, Any]) -> None:
        """Give on what becomes of it."""
        key, value, time_ms, headers = item
        self.forward(new_tuple(Record, (key, self.function(value), time_ms, headers)))


_ONE = frozenset({str, bytes, bytearray, dict, Record, type(None)})
"""What has parts, or none, and is no number of records: a record's parts are its fields."""


def several_of(made: Any) -> Iterable[Any]:
    """Return *made*.

    Raises:
        InvalidTypeError: It is one thing, whose parts nobody wants.
    """
    if type(made) in _ONE:
        raise InvalidTypeError(
            f"a flat map gives an iterable of records or of values, got {made!r}; give [{made!r}] "
            "for one, and [] for none"
        )
    found: Iterable[Any] = made
    return found


class FlatMap(Operator):
    """Any number of records for each."""

    def __init__(self, function: Callable[[Record[Any, Any]], Iterable[Any]]) -> None:
        """Map by *function*: records, or values of records with the same key."""
        self.function = function

    def receive(self, item: Record[Any, Any]) -> None:
        """Give on what becomes of it, in order."""
        key, _, time_ms, headers = item
        forward = self.forward
        for made in several_of(self.function(item)):
            if type(made) is Record:
                forward(made)
            else:
                forward(new_tuple(Record, (key, made, time_ms, headers)))


class FlatMapValues(Operator):
    """Any number of values for each, under the same key."""

    def __init__(self, function: Callable[[Any], Iterable[Any]]) -> None:
        """Map by *function*."""
        self.function = function

    def receive(self, item: Record[Any, Any]) -> None:
        """Give on what becomes of it, in order."""
        key, value, time_ms, headers = item
        forward = self.forward
        for made in several_of(self.function(value)):
            forward(new_tuple(Record, (key, made, time_ms, headers)))


class Rekey(Operator):
    """The same record under another key."""

    def __init__(self, select: OfRecord, path: str | None = None) -> None:
        """Take the key by *select*, which follows *path* if that is said."""
        self.select = select
        self.path = path

    def receive(self, item: Record[Any, Any]) -> None:
        """Give it on with its new key."""
        _, value, time_ms, headers = item
        self.forward(new_tuple(Record, (self.select(item), value, time_ms, headers)))


class Peek(Operator):
    """Shows each record to a function, and gives it on unchanged."""

    def __init__(self, function: OfRecord) -> None:
        """Show to *function*."""
        self.function = function

    def receive(self, item: Record[Any, Any]) -> None:
        """Show it, give it on."""
        self.function(item)
        self.forward(item)


class Split(Operator):
    """Gives each record to the first branch whose predicate is true."""

    def __init__(self, branches: Sequence[tuple[str, OfRecord]], rest: str | None) -> None:
        """Try *branches* in order; what none wants goes to the child *rest*, if there is one."""
        self.branches = branches
        self.rest = rest

    def wire(self, children: Mapping[str, Receive]) -> None:
        """Keep the children apart."""
        nowhere = fan_out(())
        self._ways = tuple((test, children.get(name, nowhere)) for name, test in self.branches)
        self._rest = nowhere if self.rest is None else children.get(self.rest, nowhere)

    def receive(self, item: Record[Any, Any]) -> None:
        """Give it to one branch."""
        for test, way in self._ways:
            if test(item):
                way(item)
                return
        self._rest(item)
