"""What a runner of a topology has of its stores: the seam between runners and those who serve.

A runner says which stores it has open now, and what these are; everything else is the same for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from statestores.spi.metrics.metric import Metrics
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore

_NOTHING: Mapping[int, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStore:
    """What a runner has of one store at this moment."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    partitions: int
    """How many partitions it has, here and elsewhere."""

    active: Mapping[int, ReadOnlyStore] = field(default_factory=lambda: _NOTHING)
    """A facade of committed content for each partition that runs here."""

    standby: Mapping[int, ReadOnlyStore] = field(default_factory=lambda: _NOTHING)
    """The same for each copy."""

    restoring: frozenset[int] = frozenset()
    """The partitions that will run here."""

    reached: Mapping[int, tuple[int, int]] = field(default_factory=lambda: _NOTHING)
    """How far a partition is, where the runner knows it: the offset of the next change of its
    changelog to apply, and the end that was last seen there."""


class Runner(Protocol):
    """What runs a topology. Any thread may ask it."""

    def running_stores(self) -> Mapping[str, RunningStore]:
        """Return the stores by their names, as they are now; a moved partition is gone."""

    def not_begun(self) -> str | None:
        """Return, in words, why it is not known yet what is to run here; ``None`` once it is."""

    def metrics(self) -> Metrics:
        """Return the metrics of what runs."""
