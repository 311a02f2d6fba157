"""Global tables: every instance has all rows."""

from typing import Any, Generic, TypeVar

from statestores.processing.dsl.table import Table
from statestores.processing.stores import AnyKeyValue
from statestores.spi import Versioned

K = TypeVar("K")
V = TypeVar("V")


class GlobalTable(Generic[K, V]):
    """A table of which every instance has all rows. Made by `Topology.global_table`."""

    def __init__(
        self, table: Table[K, V], store: AnyKeyValue[Any, Any] | Versioned[Any, Any]
    ) -> None:
        """Stand for *table*, kept in *store*."""
        self._lookup = table._lookup
        self._origin = table._origin
        self._store = store

    def __repr__(self) -> str:
        return f"GlobalTable({self._origin!r})"
