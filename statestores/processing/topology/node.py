"""One step of a topology: what it is called, what it hangs on, and how its operator is made."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from statestores.processing.topic import Topic
from statestores.spi import Serde, StoreSpecification

if TYPE_CHECKING:
    from collections.abc import Callable

    from statestores.processing.operators.operator import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A step. It does nothing: a runtime makes an operator of it for each task."""

    name: str
    """Unique in the topology, and the same whatever else is in it."""

    kind: str
    """What it does, in a word: ``source``, ``sink``, ``filter``, ``count``."""

    make: "Callable[[], Operator]"
    """Makes the operator of one task."""

    parents: tuple[str, ...] = ()
    """The nodes that it is given records by."""

    stores: tuple[StoreSpecification[Any, Any], ...] = ()
    """The stores that it reads or writes, as they are opened."""

    own_keys: tuple[str, ...] = ()
    """Those of them whose keys are none of records, as far as it writes them: queues, for example.
    The partition of such a key is that of the task that writes it."""

    global_stores: tuple[str, ...] = ()
    """The stores of global tables that it reads."""

    reads: Topic[Any, Any] | None = None
    """The topic of a source."""

    writes: Topic[Any, Any] | None = None
    """The topic of a sink."""

    is_internal: bool = False
    """Whether the topic belongs to the topology: its runner creates it."""

    is_global: bool = False
    """Whether every instance reads all partitions of the source's topic."""

    co_partitioned: tuple[str, ...] = ()
    """Nodes whose records have to be partitioned alike, because this one joins them."""

    form: tuple[tuple[str, str | int], ...] | None = None
    """By what it makes its rows, with `kind`: a step that goes on from rows of another form would
    mix two meanings in one store (PRC-6). ``None`` of a step whose rows bear any change."""

    waiting: tuple[Serde[Any], Serde[Any]] | None = None
    """The serdes of keys and values that wait in a store of bytes of its own, where no type tells
    what they are; ``None`` of a step in which nothing waits like that."""

    follows_rows: bool = False
    """Whether its rows are made of those of a table: it has to see them from the first on."""

    settings: tuple[tuple[str, str], ...] = field(default=())
    """What else is worth printing."""
