"""Joins of two tables by their keys: each side's change meets the other's current row."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from statestores.processing.change import Change
from statestores.processing.functions import check_function
from statestores.processing.operators.operator import Operator, TaskServices
from statestores.processing.operators.tables import Lookup, MakeLookup
from statestores.spi import TimestampedValue

How: TypeAlias = Literal["inner", "left", "outer"]
Joiner: TypeAlias = Callable[[Any, Any], Any]


class TableJoinSide(Operator):
    """One side of a join of tables."""

    def __init__(
        self,
        joiner: Joiner,
        how: How,
        other: MakeLookup,
        *,
        is_left: bool,
        versioned: bool,
        is_kept: bool = False,
    ) -> None:
        """Join with the rows of *other*; late versions of a versioned side change nothing.

        Where the result *is_kept*, by `JoinedRows`, what it was is not said here: the other side's
        row may be that of the same change already.
        """
        self.is_kept = is_kept
        self.joiner = joiner
        self.other = other
        self.is_left = is_left
        self.versioned = versioned
        self.needs_other = how == "inner" or (how == "left" and not is_left)
        self.needs_this = how == "inner" or (how == "left" and is_left)

    def open(self, task: TaskServices) -> None:
        """Take the other side's lookup."""
        self._look: Lookup = self.other(task)
        self._drop, self._fail_one, self._forgive = task.drop, task.fail_one, task.forgive

    def receive(self, item: Change) -> None:
        """Join what the row was and what it is, and give on a result that was or is."""
        key, new, old, time_ms, headers, is_latest = item
        if key is None:
            self._drop(self.name, "null-key", item)
            return
        if self.versioned and not is_latest:
            self._drop(self.name, "superseded", item)
            return
        row = self._look(key)
        other = None
        if row is not None:
            other = row[0]
            time_ms = max(time_ms, row[1] or 0)
        try:
            new = self._joined(new, other)
        except Exception as error:  # noqa: BLE001  # such a row is none (PRC-100)
            self._fail_one(self.name, error)
            new = None
        if self.is_kept:
            self.forward(Change(key, new, None, time_ms, headers))
            return
        try:
            old = self._joined(old, other)
        except Exception as error:  # noqa: BLE001  # likewise
            self._forgive(error)
            old = None
        if new is not None or old is not None:
            self.forward(Change(key, new, old, time_ms, headers))

    def _joined(self, this: Any, other: Any) -> Any:
        if other is None and (self.needs_other or this is None):
            return None
        if this is None and self.needs_this:
            return None
        return self.joiner(this, other) if self.is_left else self.joiner(other, this)


class TableStore(Operator):
    """Keeps the rows of a table whose operator keeps none, and gives the changes on."""

    def __init__(self, store: str) -> None:
        """Keep rows in the timestamped store *store*."""
        self.store = store

    def open(self, task: TaskServices) -> None:
        """Take the store's methods, once."""
        store = task.store(self.store)
        self._get, self._put = store.get, store.put

    def receive(self, item: Change) -> None:
        """Keep the new row."""
        stored = self._get(item.key)
        self._put(item.key, item.new, item.time_ms)
        self.forward(item._replace(old=None if stored is None else stored[0]))


class JoinedRows(TableStore):
    """Keeps what a join of tables has last given on, where both sides follow one change (PRC-44).

    A change that reaches both sides comes twice, and the first time the other side's row may be of
    before it or of after it: only what was given on tells what the row was.
    """

    def receive(self, item: Change) -> None:
        """Keep the new row; nothing comes of one that neither was nor is."""
        stored = self._get(item.key)
        if stored is None and item.new is None:
            return
        self._put(item.key, item.new, item.time_ms)
        self.forward(item._replace(old=None if stored is None else stored[0]))


def joined_lookup(left: MakeLookup, right: MakeLookup, joiner: Joiner, how: How) -> MakeLookup:
    """Return the lookup of a join that keeps no rows; *joiner* is checked."""
    check_function("a joiner", joiner, ("value", "other"))

    def make(task: TaskServices) -> Lookup:
        get_left, get_right = left(task), right(task)

        def look(key: Any) -> TimestampedValue[Any] | None:
            one, other = get_left(key), get_right(key)
            if one is None and (other is None or how != "outer"):
                return None
            if other is None and how == "inner":
                return None
            try:
                value = joiner(one and one[0], other and other[0])
            except Exception as error:  # noqa: BLE001  # such a row is none (PRC-100)
                task.forgive(error)
                return None
            times = [row[1] or 0 for row in (one, other) if row is not None]
            return None if value is None else TimestampedValue(value, max(times))

        return look

    return make
