"""The scans of a versioned store, written once for its owner and for facades."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from statestores.semantics.every_kind.arguments import (
    check_key_range,
    check_reverse,
    check_time,
    check_time_range,
)
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.rows.content_chunks import until_closed
from statestores.semantics.rows.namespaced_rows import key_bounds
from statestores.semantics.versioned.view import VersionedView
from statestores.spi.engine import EngineSnapshot
from statestores.spi.records import VersionedRecord
from statestores.spi.stores.versioned import ReadOnlyVersionedStore


class VersionedReads(ReadOnlyVersionedStore[bytes, bytes]):
    """A versioned store, or a facade of one, as its scans see it."""

    @property
    @abstractmethod
    def _owner(self) -> EngineStore[Any, Any]:
        """The store itself, which ends the iterators when it is closed, and counts."""

    @abstractmethod
    def _frozen(self) -> tuple[EngineSnapshot, VersionedView]:
        """Return a snapshot, to be closed by the caller, and a view of it."""

    def scan_as_of(
        self,
        as_of_ms: int | None = None,
        first: bytes | None = None,
        last: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, VersionedRecord[bytes]]]:
        check_reverse(reverse)
        check_key_range(first, last)
        if as_of_ms is not None:
            check_time("as_of_ms", as_of_ms)
        self._owner.check_open()
        snapshot, view = self._frozen()
        if as_of_ms is not None and as_of_ms < view.horizon_ms:
            self._owner.count_below_horizon()
        rows = view.scan(*key_bounds(first, last), as_of_ms, reverse=reverse)
        return self._owner.while_open(until_closed(snapshot, rows))

    def range_history(
        self,
        first: bytes | None = None,
        last: bytes | None = None,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, VersionedRecord[bytes]]]:
        check_reverse(reverse)
        check_key_range(first, last)
        check_time_range(first_ms, last_ms)
        self._owner.check_open()
        snapshot, view = self._frozen()
        if last_ms is not None and last_ms < view.horizon_ms:
            self._owner.count_below_horizon()
        rows = view.range_history(*key_bounds(first, last), first_ms, last_ms, reverse=reverse)
        return self._owner.while_open(until_closed(snapshot, rows))
