"""Ranges and prefixes of keys, written once for the owner of a store and for its facades."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from statestores.semantics.every_kind.arguments import check_key, check_key_range
from statestores.semantics.rows.namespaced_rows import key_bounds, prefix_bounds

V = TypeVar("V")


class KeyRanges(ABC, Generic[V]):
    """A store of one value for each key, or a facade of one, as its ranges see it."""

    @abstractmethod
    def _scan(self, start: bytes, stop: bytes, *, reverse: bool) -> Iterator[tuple[bytes, V]]:
        """Return the visible pairs whose rows lie from *start* to *stop*, frozen at the call."""

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, V]]:
        check_key_range(first, last)
        return self._scan(*key_bounds(first, last), reverse=reverse)

    def prefix_scan(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, V]]:
        check_key(prefix)
        return self._scan(*prefix_bounds(prefix), reverse=reverse)
