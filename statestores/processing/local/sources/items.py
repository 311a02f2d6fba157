"""Any iterable as a source: its items are numbered, and a run goes on behind those that it had."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.processing.local.sources.record_fields import FieldOf, RecordFields
from statestores.processing.local.sources.source import (
    LocalSource,
    Place,
    SourceOutput,
    SourceReader,
)
from statestores.processing.record import Record
from statestores.processing.serdes import encoded
from statestores.processing.topic import Topic
from statestores.spi import KeyValueStore

_NEXT = "next"


@dataclass(frozen=True)
class Items(LocalSource):
    """The items of an iterable, in order: `Record`s of the topic's types, or values.

    A run that is begun again asks for the items anew, and skips as many as are committed: they have
    to be the same ones. A function is given that number and returns the items behind it.

    The task waits for each item. One that takes long holds up the tasks of the same thread.
    """

    items: Iterable[Any] | Callable[[int], Iterable[Any]]
    """The items, or a function from how many are committed to those that follow."""

    key: FieldOf | None = field(default=None, kw_only=True)
    """Where the key of an item is that is no `Record`; without, there is none."""

    value: FieldOf | None = field(default=None, kw_only=True)
    """Where its value is; without, it is the item."""

    time: FieldOf | None = field(default=None, kw_only=True)
    """Where its time is, in milliseconds or a `datetime`; without, it is that of the reading."""

    def reader(
        self, topic: Topic[Any, Any], store: KeyValueStore[str, Any], output: SourceOutput
    ) -> SourceReader:
        """Open it, behind what is committed."""
        if not callable(self.items) and not isinstance(self.items, Iterable):
            raise InvalidTypeError(
                f"Items takes an iterable, or a function that returns one, got {self.items!r}"
            )
        fields = RecordFields(topic, key=self.key, value=self.value, time=self.time)
        return _ItemReader(self, topic, fields, store, output)


class _ItemReader(SourceReader):
    """Takes items one by one."""

    def __init__(
        self,
        source: Items,
        topic: Topic[Any, Any],
        fields: RecordFields,
        store: KeyValueStore[str, Any],
        output: SourceOutput,
    ) -> None:
        self._topic, self._fields, self._store, self._output = topic, fields, store, output
        self._next = self._saved = store.get(_NEXT) or 0
        self._items = self._begin(source.items)
        self._is_over = False

    def _begin(self, items: Iterable[Any] | Callable[[int], Iterable[Any]]) -> Iterator[Any]:
        if callable(items):
            return iter(items(self._next))
        following = iter(items)
        skipped = sum(1 for _ in islice(following, self._next))
        if skipped < self._next:
            raise InvalidArgumentError(
                f"the source of {self._topic.name!r} has {skipped} items, and {self._next} are "
                "committed; it has to give the same items again, or be a function of how many"
            )
        return following

    def read(self, limit: int) -> int:
        """Take up to *limit* items."""
        topic, output, done = self._topic, self._output, 0
        for item in islice(self._items, limit):
            done += 1
            place = Place("items", self._next)
            try:
                if isinstance(item, Record):
                    record = Record(
                        encoded(topic.key, item.key), encoded(topic.value, item.value), *item[2:]
                    )
                else:
                    record = self._fields.record(item, output.wall_ms)
            except Exception as error:  # noqa: BLE001  # selectors and serdes may raise anything
                output.refuse(error, place)
            else:
                output.take(record, place)
            self._next += 1
        self._is_over = done < limit
        return done

    @property
    def has_more(self) -> bool:
        """Until the iterable has ended."""
        return not self._is_over

    def save(self) -> None:
        """Write down how many there were."""
        if self._next != self._saved:
            self._store.put(_NEXT, self._next)
            self._saved = self._next
