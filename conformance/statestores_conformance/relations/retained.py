"""What window and session stores have in common, as the relations see them: a retention."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from statestores.spi import StoreSpecification
from statestores_conformance.relations.kinds import Read, Split, TimedKind

HIGHEST_MS = 2**63 - 1

RETENTION_MS = 20
"""Short: the times of a workload cross it again and again."""

_LONG_MS = 10**6

times = st.integers(0, 60)


class RetainedKind(TimedKind):
    """Rows that expire once stream time is past them by a retention."""

    def lasting(self, specification: Any) -> StoreSpecification[Any, Any]:
        changed: StoreSpecification[Any, Any] = replace(specification, retention_ms=_LONG_MS)
        return changed

    def retention_ms(self, specification: Any) -> int:
        retention_ms: int = specification.retention_ms
        return retention_ms

    def short_and_long(
        self, *specifications: StoreSpecification[Any, Any]
    ) -> SearchStrategy[StoreSpecification[Any, Any]]:
        """Draw one of *specifications* or, less often, one whose retention is never reached."""
        lasting = [self.lasting(specification) for specification in specifications]
        return st.sampled_from([*specifications, *specifications, *lasting])


def columns_of(rows: Sequence[tuple[Any, ...]], width: int) -> tuple[list[Any], ...]:
    """Return *rows* of *width* cells as columns."""
    return tuple([row[place] for row in rows] for place in range(width))


def cut(whole: Read, *parts: tuple[Any, ...]) -> Split:
    """Return *whole* with reads of the same form that differ from it in their arguments."""
    return Split(whole, tuple(whole._replace(arguments=part) for part in parts))


def surviving(
    rows: Sequence[tuple[Any, ...]], time_at: int, retention_ms: int
) -> list[tuple[Any, ...]]:
    """Return those of *rows* that no later one replaces and stream time has not left behind.

    A row is a key, a value, and whatever else tells it from others; cell *time_at* is its time.
    """
    last = {(row[0], *row[2:]): place for place, row in enumerate(rows)}
    horizon = max((row[time_at] for row in rows), default=0) - retention_ms
    return [
        row
        for place, row in enumerate(rows)
        if last[row[0], *row[2:]] == place and row[time_at] > horizon
    ]
