"""Tables: rows that change, and what is made of them row by row."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from statestores.processing.change import Change
from statestores.processing.functions import ONE_RECORD, check_function
from statestores.processing.operators.ends import Sink
from statestores.processing.operators.operator import Operator, Receive, TaskServices
from statestores.processing.record import Record
from statestores.spi import TimestampedValue
from statestores.spi.records import new_tuple

Lookup: TypeAlias = Callable[..., TimestampedValue[Any] | None]
"""From a key to the row that a table has for it now; from a key and a time, if the table is
versioned, to the row that it had then."""

MakeLookup: TypeAlias = Callable[[TaskServices], Lookup]
"""Makes the lookup of one task."""


def stored_lookup(store: str, *, versioned: bool) -> MakeLookup:
    """Return what looks rows up in the store *store*."""

    def make(task: TaskServices) -> Lookup:
        get = task.store(store).get
        if not versioned:
            return get  # type: ignore[no-any-return]  # a store of any kind is Any

        def version_of(key: Any, *as_of_ms: int) -> TimestampedValue[Any] | None:
            version = get(key, *as_of_ms)
            return None if version is None else TimestampedValue(version[0], version[1])

        return version_of

    return make


def result_lookup(found: MakeLookup, result: Callable[[Any], Any] | None) -> MakeLookup:
    """Return what finds the rows as a table gives them on, where it keeps what they are made of."""
    if result is None:
        return found

    def make(task: TaskServices) -> Lookup:
        look = found(task)

        def look_for_result(key: Any) -> TimestampedValue[Any] | None:
            row = look(key)
            return None if row is None else TimestampedValue(result(row[0]), row[1])

        return look_for_result

    return make


class TableSource(Operator):
    """Keeps the last value of each key, in the order of arrival (PRC-41)."""

    def __init__(self, store: str) -> None:
        """Keep rows in *store*: a timestamped one, or a versioned one for versions."""
        self.store = store

    def open(self, task: TaskServices) -> None:
        """Take the store's methods, once."""
        store = task.store(self.store)
        self._get, self._put, self._drop = store.get, store.put, task.drop

    def receive(self, item: Record[Any, Any]) -> None:
        """Replace the row, and give on the change."""
        key, value, time_ms, headers = item
        if key is None:
            self._drop(self.name, "null-key", item)
            return
        stored = self._get(key)
        self._put(key, value, time_ms)
        old = None if stored is None else stored[0]
        self.forward(new_tuple(Change, (key, value, old, time_ms, headers, True)))


class VersionedTableSource(TableSource):
    """Keeps the versions of each key within a history retention (KIP-889, KIP-914)."""

    def receive(self, item: Record[Any, Any]) -> None:
        """Put the version; one that is too old is dropped."""
        key, value, time_ms, headers = item
        if key is None:
            self._drop(self.name, "null-key", item)
            return
        latest = self._get(key)
        result = self._put(key, value, time_ms)
        if not result.accepted:
            self._drop(self.name, "expired", item)
            return
        old = None if latest is None else latest[0]
        self.forward(Change(key, value, old, time_ms, headers, result.valid_to_ms is None))


class DerivedRows(Operator):
    """Rows that are made of a table's, one by one, and may have a store of their own.

    A row at which a function fails is none, where the policy is to go on: it is deleted when it
    comes, and was none when another takes its place (PRC-100).

    That store has the last row that arrived (PRC-41). Of *versioned* rows a late one may have come
    last, so what a row was is what the store has, not what would be made of the version before.
    """

    def __init__(self, store: str | None, *, versioned: bool) -> None:
        """Keep the rows in *store*, if there is one."""
        self.store = store
        self.versioned = versioned

    def open(self, task: TaskServices) -> None:
        """Take the store's methods, once."""
        self._fail_one, self._forgive = task.fail_one, task.forgive
        store = None if self.store is None else task.store(self.store)
        self._put = None if store is None else store.put
        self._read = None if store is None else store.get
        self._get = self._read if self.versioned else None
        self._gives_versions = self.versioned and store is None

    def _failed(self, key: Any, error: Exception) -> Any:
        """Return what a row was of which that cannot be said: what the store has, else none."""
        self._forgive(error)
        stored = None if self._read is None else self._read(key)
        return None if stored is None else stored[0]

    def _was(self, key: Any, old: Any) -> Any:
        """Return what the row was, where it would have been *old* by the versions."""
        if self._get is None:
            return old
        stored = self._get(key)
        return None if stored is None else stored[0]


class TableFilter(DerivedRows):
    """Keeps the rows of which the predicate is true, or false; others are deleted."""

    def __init__(
        self,
        predicate: Callable[[Record[Any, Any]], Any],
        *,
        keep: bool,
        store: str | None,
        versioned: bool = False,
    ) -> None:
        """Keep those of which *predicate* is *keep*, in the store *store* if there is one."""
        super().__init__(store, versioned=versioned)
        check_function("filter", predicate, ONE_RECORD)
        self.predicate = predicate
        self.keep = keep

    def receive(self, item: Change) -> None:
        """Give on a row that was kept or is; of versions all, as each ends the one before it."""
        key, new, old, time_ms, headers, is_latest = item
        try:
            new = self._kept(item, new)
        except Exception as error:  # noqa: BLE001  # a user's function may raise anything
            self._fail_one(self.name, error)
            new = None
        try:
            old = self._kept(item, old)
        except Exception as error:  # noqa: BLE001  # likewise
            old = self._failed(key, error)
        old = self._was(key, old)
        if new is None and old is None and not self._gives_versions:
            return
        if self._put is not None:
            self._put(key, new, time_ms)
        self.forward(Change(key, new, old, time_ms, headers, is_latest))

    def _kept(self, item: Change, value: Any) -> Any:
        if value is None:
            return None
        record = Record(item.key, value, item.time_ms, item.headers)
        return value if bool(self.predicate(record)) is self.keep else None

    def lookup_of(self, parent: MakeLookup) -> MakeLookup:
        """Return the lookup of a table that keeps no rows itself."""

        def make(task: TaskServices) -> Lookup:
            get = parent(task)

            def look(key: Any, *as_of_ms: int) -> TimestampedValue[Any] | None:
                row = get(key, *as_of_ms)
                if row is None:
                    return None
                record = Record(key, row[0], row[1] or 0)
                try:
                    is_kept = bool(self.predicate(record)) is self.keep
                except Exception as error:  # noqa: BLE001  # such a row is none (PRC-100)
                    task.forgive(error)
                    return None
                return row if is_kept else None

            return look

        return make


class TableMapValues(DerivedRows):
    """The same rows with other values; a deletion stays one."""

    def __init__(
        self, function: Callable[[Any], Any], store: str | None, *, versioned: bool = False
    ) -> None:
        """Map by *function*, into the store *store* if there is one."""
        super().__init__(store, versioned=versioned)
        check_function("map_values", function, ("value",))
        self.function = function

    def receive(self, item: Change) -> None:
        """Give on the mapped row."""
        key, new, old, time_ms, headers, is_latest = item
        try:
            new = None if new is None else self.function(new)
        except Exception as error:  # noqa: BLE001  # a user's function may raise anything
            self._fail_one(self.name, error)
            new = None
        try:
            old = None if old is None else self.function(old)
        except Exception as error:  # noqa: BLE001  # likewise
            old = self._failed(key, error)
        old = self._was(key, old)
        if self._put is not None:
            self._put(key, new, time_ms)
        self.forward(Change(key, new, old, time_ms, headers, is_latest))

    def lookup_of(self, parent: MakeLookup) -> MakeLookup:
        """Return the lookup of a table that keeps no rows itself."""

        def make(task: TaskServices) -> Lookup:
            get = parent(task)

            def look(key: Any, *as_of_ms: int) -> TimestampedValue[Any] | None:
                row = get(key, *as_of_ms)
                try:
                    mapped = None if row is None else self.function(row[0])
                except Exception as error:  # noqa: BLE001  # such a row is none (PRC-100)
                    task.forgive(error)
                    return None
                return None if row is None or mapped is None else TimestampedValue(mapped, row[1])

            return look

        return make


class ToStream(Operator):
    """Gives on each change as a record with the new value."""

    def wire(self, children: Mapping[str, Receive]) -> None:
        """Take the children; the only one may take changes itself, and save a record for each."""
        super().wire(children)
        if len(children) == 1:
            (child,) = children.values()
            sink = getattr(child, "__self__", None)
            if type(sink) is Sink and child == sink.receive:
                self.receive = sink.receive_change  # type: ignore[method-assign]  # a call less

    def receive(self, item: Change) -> None:
        """Give it on; a deletion has no value."""
        key, new, _, time_ms, headers, _ = item
        self.forward(new_tuple(Record, (key, new, time_ms, headers)))


class TableRegroup(Operator):
    """Gives the rows of a table other keys and values, as records of changes (PRC-43)."""

    def __init__(
        self,
        key: Callable[[Record[Any, Any]], Any],
        value: Callable[[Record[Any, Any]], Any],
        *,
        versioned: bool,
    ) -> None:
        """Take keys by *key* and values by *value*; of *versioned* rows the latest count."""
        self.key = key
        self.value = value
        self.versioned = versioned

    def open(self, task: TaskServices) -> None:
        """Count what is dropped."""
        self._drop, self._fail_one, self._forgive = task.drop, task.fail_one, task.forgive

    def receive(self, item: Change) -> None:
        """Give on what is taken out and what is added: as one where the key stays."""
        if self.versioned and not item.is_latest:
            self._drop(self.name, "superseded", item)
            return
        old_key = old = new_key = new = None
        try:
            new_key, new = self._regrouped(item, item.new)
        except Exception as error:  # noqa: BLE001  # such a row is in no group (PRC-100)
            self._fail_one(self.name, error)
        try:
            old_key, old = self._regrouped(item, item.old)
        except Exception as error:  # noqa: BLE001  # likewise
            self._forgive(error)
        if old_key is not None and old_key == new_key:
            if new is not None or old is not None:
                self._give(new_key, new, old, item)
            return
        if old_key is not None and old is not None:
            self._give(old_key, None, old, item)
        if new_key is not None and new is not None:
            self._give(new_key, new, None, item)

    def _regrouped(self, item: Change, value: Any) -> tuple[Any, Any]:
        if value is None:
            return None, None
        record = Record(item.key, value, item.time_ms, item.headers)
        return self.key(record), self.value(record)

    def _give(self, key: Any, new: Any, old: Any, item: Change) -> None:
        change = Change(key, new, old, item.time_ms)
        self.forward(Record(key, change, item.time_ms, item.headers))
