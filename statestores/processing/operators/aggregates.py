"""Aggregates without windows: one row for each key, with the greatest time of what is in it."""

from typing import Any

from statestores.metrics.call_recording import is_recorded
from statestores.processing.change import Change
from statestores.processing.operators.fold import Fold
from statestores.processing.operators.operator import Operator, TaskServices
from statestores.processing.record import Record, new_tuple
from statestores.processing.stores import key_serde, store_below, value_serde


class Aggregate(Operator):
    """Folds the records of each key. Records without key or value are dropped (PRC-14)."""

    def __init__(self, fold: Fold, store: str) -> None:
        """Fold by *fold* into the timestamped store *store*."""
        self.fold = fold
        self.store = store

    def open(self, task: TaskServices) -> None:
        """Take the methods of the store of bytes, once: so a key is encoded once for two calls."""
        store = task.store(self.store)
        key, value = key_serde(store.specification), value_serde(store.specification)
        coders: tuple[Any, Any, Any] = key.encode, value.encode, value.decode
        below = store_below(store)
        if is_recorded(getattr(store, "whole_store", store)):
            coders, below = (_as_it_is,) * 3, store  # its calls are to be seen
        self._encode_key, self._encode, self._decode = coders
        self._get, self._put, self._drop = below.get, below.put, task.drop
        self._initial, self._add = self.fold.initial, self.fold.add
        self._select, self._result = self.fold.select, self.fold.result

    def receive(self, item: Record[Any, Any]) -> None:
        """Add it to its key's aggregate."""
        key, value, time_ms, headers = item
        if key is None or value is None:
            self._drop(self.name, "null-key" if key is None else "null-value", item)
            return
        if self._select is not None:
            value = self._select(item)
            if value is None:
                self._drop(self.name, "null-value", item)
                return
        name = self._encode_key(key)
        stored = self._get(name)
        if stored is None:
            old, new = None, self._add(self._initial(), value)
        else:
            data, seen_ms = stored
            old = self._decode(data)
            new = self._add(old, value)
            if seen_ms is not None and seen_ms > time_ms:
                time_ms = seen_ms
        self._put(name, None if new is None else self._encode(new), time_ms)
        if self._result is not None:
            new, old = _of(self._result, new), _of(self._result, old)
        self.forward(new_tuple(Change, (key, new, old, time_ms, headers, True)))


class TableAggregate(Operator):
    """Folds the rows of a table: what a row was is taken out, what it is now is added.

    Each item is a record whose value is a `Change`, as a repartition topic carries it.
    """

    def __init__(self, fold: Fold, store: str) -> None:
        """Fold by *fold*, which can subtract, into the timestamped store *store*."""
        self.fold = fold
        self.store = store

    def open(self, task: TaskServices) -> None:
        """Take the store's methods, once."""
        store = task.store(self.store)
        self._get, self._put, self._drop = store.get, store.put, task.drop

    def receive(self, item: Record[Any, Any]) -> None:
        """Replace the old value by the new one, in one update."""
        key, change, time_ms, headers = item
        if key is None:
            self._drop(self.name, "null-key", item)
            return
        fold = self.fold
        before, after = self._selected(item, change.old), self._selected(item, change.new)
        if before is None and after is None:
            self._drop(self.name, "null-value", item)
            return
        stored = self._get(key)
        aggregate = old = None
        if stored is not None:
            aggregate = old = stored[0]
            time_ms = max(time_ms, stored[1] or 0)
        if before is not None and aggregate is not None and fold.subtract is not None:
            aggregate = fold.subtract(aggregate, before)
        if after is not None:
            aggregate = fold.initial() if aggregate is None else aggregate
            aggregate = fold.add(aggregate, after)
        self._put(key, aggregate, time_ms)
        if fold.result is not None:
            aggregate, old = _of(fold.result, aggregate), _of(fold.result, old)
        self.forward(Change(key, aggregate, old, time_ms, headers))

    def _selected(self, item: Record[Any, Any], value: Any) -> Any:
        select = self.fold.select
        return value if select is None or value is None else select(item.with_value(value))


def _as_it_is(item: Any) -> Any:
    return item


def _of(result: Any, aggregate: Any) -> Any:
    return None if aggregate is None else result(aggregate)
