"""A store of the test driver as the topology has declared it, for reading.

Aggregates and tables keep more than their declaration says: a timestamp with each value, of a mean
its total and how many values there were. No read of the view shows that.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from statestores.errors import CapabilityNotSupportedError, StoreMismatchError
from statestores.serdes.mean_serde import Mean
from statestores.spi import (
    KeyValue,
    StoreSpecification,
    TimestampedKeyValue,
    TimestampedValue,
)
from statestores.spi.kinds import TIMESTAMPED_KEY_VALUE

_OF_ONE = frozenset({"get", "fetch", "fetch_session"})
_OF_MANY = frozenset({"get_many", "fetch_many"})
_OF_PAIRS = frozenset({"range", "prefix_scan"})
_OF_RECORDS = frozenset(
    {"fetch_range", "fetch_all", "find_sessions", "find_all_sessions", "find_sessions_by_end"}
)
_WRITES = frozenset(
    {
        "add_many",
        "delete",
        "max_many",
        "min_many",
        "put",
        "put_all",
        "put_if_absent",
        "put_many",
        "remove",
        "update_many",
    }
)


def as_declared(
    store: Any,
    wanted: StoreSpecification[Any, Any] | None,
    *,
    keeps_stamps: bool,
    stamped: bool,
) -> Any:
    """Return *store* as the topology has declared it, or as *wanted* says that it has.

    *keeps_stamps* says that it has a timestamp with each value, whatever was declared; by name,
    *stamped* shows the store that has them.

    Raises:
        StoreMismatchError: *wanted* is of another kind, or of other keys.
    """
    if wanted is None:
        return DeclaredView(store) if keeps_stamps and not stamped else store
    has, asked = store.specification.describe(), wanted.describe()
    kinds = {asked["kind"]}
    if keeps_stamps and isinstance(wanted, KeyValue):
        kinds = {str(TIMESTAMPED_KEY_VALUE)}
    if has["kind"] not in kinds or has["key"] != asked["key"]:
        raise StoreMismatchError(
            f"the store {wanted.name!r} is a {has['kind']} store with keys of {has['key']!r}, and "
            f"was asked for as a {asked['kind']} store with keys of {asked['key']!r}"
        )
    stamped = isinstance(wanted, TimestampedKeyValue)
    return DeclaredView(store, stamped=stamped) if keeps_stamps else store


class DeclaredView:
    """A store as it was declared, over the one that keeps more."""

    def __init__(self, store: Any, *, stamped: bool = False) -> None:
        """Read *store*; *stamped* leaves the timestamp with each value."""
        self._store = store
        self._stamped = stamped

    def __repr__(self) -> str:
        return f"<{self._store.name!r} as it was declared, for reading>"

    def __getattr__(self, name: str) -> Any:
        found, show = getattr(self._store, name), self._show
        if name in _WRITES:
            raise CapabilityNotSupportedError(
                f"the driver gives the store {self._store.name!r} for reading, and {name!r} "
                "writes; pipe a record into a topic instead"
            )
        if name in _OF_ONE:
            return _then(found, show)
        if name in _OF_MANY:
            return _then(found, lambda values: [show(value) for value in values])
        if name in _OF_PAIRS:
            return _then(found, lambda pairs: ((key, show(value)) for key, value in pairs))
        if name in _OF_RECORDS:
            return _then(found, lambda rows: (row._replace(value=show(row.value)) for row in rows))
        return found  # nothing of it has values, or none with timestamps: versions have their own

    def _show(self, value: Any) -> Any:
        """Return a value as the declaration has it."""
        if isinstance(value, TimestampedValue):
            shown = self._show(value.value)
            return value._replace(value=shown) if self._stamped else shown
        return value.mean if isinstance(value, Mean) else value


def _then(read: Callable[..., Any], show: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return *read* with its result shown; iterators stay frozen at the call."""

    @wraps(read)
    def reading(*arguments: Any, **more: Any) -> Any:
        return show(read(*arguments, **more))

    return reading
