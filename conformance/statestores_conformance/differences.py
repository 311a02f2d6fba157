"""Where this specification decides otherwise than Kafka Streams does, case by case.

One table. A case is either run with our expectation in place of Kafka's, or not run at all, and
then reported as skipped with the reason. Cases that Kafka's own segments decide are not in the
vectors; ``statestores.json`` has ours in their place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from statestores_conformance.vectors import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How one case is taken here."""

    reason: str
    """Why."""

    requirement: str
    """The requirement that decides."""

    expect: Mapping[int, Any] = field(default_factory=dict)
    """By the number of the step, what it has to give instead."""

    without: frozenset[int] = frozenset()
    """The numbers of steps that are left out."""

    rename: Mapping[str, str] = field(default_factory=dict)
    """Topics that are called otherwise."""

    refuse_negative_times: bool = False
    """Whether every read as of a negative time has to be refused."""

    run: bool = True
    """Whether the case is run at all."""


DIFFERENCES: dict[str, Difference] = {
    "kv/iter-next-rest-deleted": Difference(
        reason="iterators are frozen in every backend, not live in the one in memory",
        requirement="KVS-11",
        expect={5: {"key": "key2", "value": "value2"}},
    ),
    "kv/iter-peek-deleted": Difference(
        reason="iterators are frozen in every backend, not live in the one in memory",
        requirement="KVS-11",
        expect={4: "key"},
    ),
    "kv/position-in-memory": Difference(
        reason="a topic without a name is refused, so the case is run with a name",
        requirement="COM-19",
        expect={3: {"topic": {"0": 3}}},
        rename={"": "topic"},
    ),
    "kv/close-invalidates-iterators": Difference(
        reason="a Python iterator has no `has_next`; the next step raises, and ends it",
        requirement="KVS-13",
        without=frozenset({4, 5, 7, 9}),
    ),
    **dict.fromkeys(
        (
            "versioned/row-built-upwards-three",
            "versioned/row-built-downwards-three",
            "versioned/row-insert-three-0",
            "versioned/row-insert-three-1",
            "versioned/row-insert-three-2",
            "versioned/row-find-three",
        ),
        Difference(
            reason="a negative time is refused, in reads as in writes, rather than answered",
            requirement="VRS-16",
            refuse_negative_times=True,
        ),
    ),
    "versioned/plain-range-query-unsupported": Difference(
        reason="a versioned store has no un-versioned range query that it could refuse",
        requirement="VRS-12",
        run=False,
    ),
}


def as_decided_here(case: Case) -> Case:
    """Return *case* with what this specification expects of it."""
    difference = DIFFERENCES.get(case.id)
    if difference is None:
        return case
    steps = []
    for number, original in enumerate(case.steps):
        if number in difference.without:
            continue
        step = dict(original)
        if number in difference.expect:
            step["expect"] = difference.expect[number]
        if difference.refuse_negative_times and step.get("as_of", 0) < 0:
            step["expect"] = {"raises": "illegal_argument"}
        if "record" in step:
            record = dict(step["record"])
            record["topic"] = difference.rename.get(record["topic"], record["topic"])
            step["record"] = record
        steps.append(step)
    return replace(case, steps=tuple(steps))
