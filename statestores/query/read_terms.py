"""On which terms a store is read: which partitions may answer, and in what state."""

from dataclasses import dataclass
from typing import TypedDict

from statestores.query.position_bound import AtLeast


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTerms:
    """What a query says beside what it reads; it goes along wherever the query goes."""

    include_stale: bool = False
    """Whether copies may answer."""

    partition: int | None = None
    """The only partition to read; ``None``: those that the keys are in."""

    at_least: AtLeast | None = None
    """The position that what is read must have reached."""

    max_lag: int | None = None
    """How many changes what is read may be behind."""


class GivenTerms(TypedDict, total=False):
    """The same, as arguments of a call."""

    include_stale: bool
    partition: int | None
    at_least: AtLeast | None
    max_lag: int | None


ANY_TERMS = ReadTerms()
"""Of what is active, as it is."""
