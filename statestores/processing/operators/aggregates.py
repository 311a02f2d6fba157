"""Aggregates without windows: one row for each key, with the greatest time of what is in it."""

from typing import Any

from statestores.metrics.call_recording import is_recorded
from statestores.processing.change import Change
from statestores.processing.operators.fold import Fold
from statestores.processing.operators.operator import Operator, TaskServices
from statestores.processing.record import Record
from statestores.processing.stores import key_serde, store_below, value_serde
from statestores.spi.records import new_tuple


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
        if self.is_leaf:
            return
        if self._result is not None:
            new, old = _of(self._result, new), _of(self._result, old)
        self.forward(new_tuple(Change, (key, new, old, time_ms, headers, True)))


class TableAggregate(Operator):
    """Folds the rows of a table: what a row was is taken out, what it is now is added.

    Each item is a record whose value is a `Change`, as a repartition topic carries it.

    A row at which the fold fails is not in the aggregate, where the policy is to go on (PRC-100).
    It must fail when it is added and when it is taken out: else the task stops, since a row would
    be taken out that was never added, or stay for good (PRC-101).
    """

    def __init__(self, fold: Fold, store: str) -> None:
        """Fold by *fold*, which can subtract, into the timestamped store *store*."""
        self.fold = fold
        self.store = store

    def open(self, task: TaskServices) -> None:
        """Take the store's methods, once."""
        store = task.store(self.store)
        self._get, self._put, self._drop = store.get, store.put, task.drop
        self._fail_one, self._forgive = task.fail_one, task.forgive
        self._fail_task = task.fail_task

    def receive(self, item: Record[Any, Any]) -> None:
        """Replace the old value by the new one, in one update."""
        key, change, time_ms, headers = item
        if key is None:
            self._drop(self.name, "null-key", item)
            return
        before, after = self._sides(item, change)
        if before is None and after is None:
            return
        stored = self._get(key)
        aggregate = old = None
        if stored is not None:
            aggregate = old = stored[0]
            time_ms = max(time_ms, stored[1] or 0)
        try:
            aggregate = self._folded(aggregate, before, after)
        except Exception as error:  # noqa: BLE001  # a user's function may raise anything
            before, after = self._fit(key, before, after, error)
            if before is None and after is None:
                return
            aggregate = self._folded_again(key, before, after)
        try:
            self._put(key, aggregate, time_ms)
        except Exception as error:  # noqa: BLE001  # of a serde: a row cannot be left out now
            self._forgive(error)
            self._fail_task(self.name, error)
        result = self.fold.result
        if result is not None:
            aggregate, old = _of(result, aggregate), _of(result, old)
        self.forward(Change(key, aggregate, old, time_ms, headers))

    def _sides(self, item: Record[Any, Any], change: Change) -> tuple[Any, Any]:
        """Return what is taken out and what is added; ``None``: nothing, and it has been said."""
        select, old, new = self.fold.select, change.old, change.new
        has_failed = False
        if select is not None:
            try:
                new = None if new is None else select(item.with_value(new))
            except Exception as error:  # noqa: BLE001  # a user's function may raise anything
                self._fail_one(self.name, error)
                new, has_failed = None, True
            try:
                old = None if old is None else select(item.with_value(old))
            except Exception as error:  # noqa: BLE001  # likewise
                self._forgive(error)
                old = None
        if old is None and new is None and not has_failed:
            self._drop(self.name, "null-value", item)
        return old, new

    def _folded(self, aggregate: Any, before: Any, after: Any) -> Any:
        """Return *aggregate* without what was *before*, and with what comes *after*."""
        fold = self.fold
        if before is not None and aggregate is not None and fold.subtract is not None:
            aggregate = fold.subtract(aggregate, before)
        if after is not None:
            aggregate = fold.initial() if aggregate is None else aggregate
            aggregate = fold.add(aggregate, after)
        return aggregate

    def _folded_again(self, key: Any, before: Any, after: Any) -> Any:
        try:
            return self._folded(self._aggregate(key), before, after)
        except Exception as error:  # noqa: BLE001  # each can be added: one cannot be taken out
            self._fail_task(self.name, error)

    def _aggregate(self, key: Any) -> Any:
        """Return what is stored: anew, since a function may have changed what it was given."""
        stored = self._get(key)
        return None if stored is None else stored[0]

    def _fit(self, key: Any, before: Any, after: Any, error: Exception) -> tuple[Any, Any]:
        """Return those of both sides that the fold can add, and could so before.

        Raises:
            ProcessingError: It could take out what it cannot add.
        """
        self._forgive(error)
        is_before_fit = before is not None and self._is_fit(key, before, error)
        is_after_fit = after is not None and self._is_fit(key, after, error)
        if after is not None and not is_after_fit:
            self._fail_one(self.name, error)
        return before if is_before_fit else None, after if is_after_fit else None

    def _is_fit(self, key: Any, value: Any, error: Exception) -> bool:
        """Whether the fold can add *value*; if not, it has never been added, and never will be."""
        fold, aggregate = self.fold, self._aggregate(key)
        try:
            fold.add(fold.initial() if aggregate is None else aggregate, value)
        except Exception:  # noqa: BLE001  # that is what is asked
            aggregate = self._aggregate(key)
        else:
            return True
        if fold.subtract is not None:
            try:
                fold.subtract(fold.initial() if aggregate is None else aggregate, value)
            except Exception:  # noqa: BLE001  # likewise
                return False
        self._fail_task(self.name, error)
        return False


def _as_it_is(item: Any) -> Any:
    return item


def _of(result: Any, aggregate: Any) -> Any:
    return None if aggregate is None else result(aggregate)
