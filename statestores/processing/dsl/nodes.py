"""What streams and tables are to whoever adds a step: a node, and what is known of its records.

The methods that users call are in `stream`, `table` and `grouped`. These know each other's results,
as a table gives a stream and a stream a table; their modules do not import each other for it: the
builder has the classes that a step further down needs, handed in once by `Topology`.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from statestores.processing.dsl.builder import Builder
from statestores.processing.operators.operator import Operator
from statestores.processing.operators.tables import MakeLookup
from statestores.processing.windows import Windows
from statestores.serdes import json
from statestores.spi import Serde, StoreSpecification

K = TypeVar("K")
V = TypeVar("V")


class StreamNode(Generic[K, V]):
    """The node that a stream's records come from."""

    def __init__(
        self,
        builder: Builder,
        node: str,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        *,
        origin: str,
        is_rekeyed: bool = False,
    ) -> None:
        """Stand for what *node* gives.

        *key* and *value* are the serdes as far as they are known. *origin* is the last thing with a
        name that the records come from. Once *is_rekeyed*, equal keys may be in several partitions.
        """
        self._builder = builder
        self._node = node
        self._key = key
        self._value = value
        self._origin = origin
        self._is_rekeyed = is_rekeyed

    def _partitioned(
        self,
        purpose: str,
        key: Serde[Any],
        value: Serde[Any] | None = None,
        *,
        keeps_keyless: bool = False,
    ) -> str:
        """Return the node after which equal keys are in one partition.

        Records without key do not come so far, unless what follows *keeps_keyless* ones.
        """
        if not self._is_rekeyed:
            return self._node
        return self._builder.repartition(
            self._node,
            purpose,
            self._key or key,
            self._value or value or json,
            keeps_keyless=keeps_keyless,
        )

    def _step(self, kind: str, make: Callable[[], Operator], name: str | None, **more: Any) -> str:
        return self._builder.step(kind, (self._node,), make, name=name, **more)


class TableNode(Generic[K, V]):
    """The node that changes a table's rows, and how they are found."""

    def __init__(
        self,
        builder: Builder,
        node: str,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        lookup: MakeLookup,
        stores: tuple[StoreSpecification[Any, Any], ...],
        *,
        origin: str,
        is_versioned: bool = False,
        is_derived: bool = False,
        windows: Windows | None = None,
    ) -> None:
        """Stand for the rows that *node* changes, and that *lookup* finds in *stores*.

        Those of a table that *is_derived* are made of what is found. *windows* is what the keys are
        windows of, if they are.
        """
        self._builder = builder
        self._node = node
        self._key = key
        self._value = value
        self._lookup = lookup
        self._stores = stores
        self._origin = origin
        self._is_versioned = is_versioned
        self._is_derived = is_derived
        self._windows = windows

    def _with_rows(self) -> "TableNode[K, V]":
        """Return the table as one whose rows can be found, and whose changes say what a row was."""
        return self


class GroupNode(Generic[K, V]):
    """The node that grouped records come from, which may have to be brought together first."""

    def __init__(
        self,
        builder: Builder,
        node: str,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        *,
        needs_repartition: bool,
    ) -> None:
        """Group what *node* gives."""
        self._builder = builder
        self._node = node
        self._key = key
        self._value = value
        self._needs_repartition = needs_repartition

    def partitioned(self, name: str, key: Serde[Any]) -> str:
        """Return the node after which a group is in one partition."""
        if not self._needs_repartition:
            return self._node
        return self._builder.repartition(self._node, name, self._key or key, self._value or json)
