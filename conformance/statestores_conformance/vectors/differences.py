"""Where this specification differs from Kafka Streams, case by case.

One table. A case is either run with our expectation instead of Kafka's, or not run at all, and then
reported as skipped with the reason. Cases that Kafka's own segments decide are not in the vectors;
``statestores.json`` has ours instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from statestores_conformance.vectors.cases import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How one case is treated here."""

    reason: str
    """Why."""

    requirement: str
    """The requirement that decides."""

    expect: Mapping[int, Any] = field(default_factory=dict)
    """By the number of the step, what it must give instead."""

    without: frozenset[int] = frozenset()
    """The numbers of steps that are left out."""

    rename: Mapping[str, str] = field(default_factory=dict)
    """Topics that have another name."""

    refuse_negative_times: bool = False
    """Whether every read as of a negative time must be refused."""

    run: bool = True
    """Whether the case is run at all."""


_ONE_BOUNDARY = "a window is gone when it is as old as the retention, in every backend"

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
    "window/position-in-memory": Difference(
        reason="a topic without a name is refused, so the case is run with a name",
        requirement="COM-19",
        expect={4: {"topic": {"0": 4}}},
        rename={"": "topic"},
    ),
    "window/rolling-time-ordered": Difference(
        reason=_ONE_BOUNDARY,
        requirement="WIN-8",
        expect={6: [], 14: [], 33: []},
    ),
    "window/sparse-segments-reads-time-ordered": Difference(
        reason=_ONE_BOUNDARY,
        requirement="WIN-8",
        expect={6: [{"start": 180_000, "value": "v"}]},
    ),
    "window/wipe-and-restore-time-ordered": Difference(
        reason=_ONE_BOUNDARY,
        requirement="WIN-8",
        expect={25: []},
    ),
    "window/order-in-memory": Difference(
        reason="windows are ordered by key and then by start in every backend",
        requirement="WIN-12",
        expect={
            4: [
                {"start": start, "value": value}
                for start, value in ((9, "a@9"), (70_000, "a@70000"), (5, "b@5"), (1, "c@1"))
            ]
        },
    ),
    "session/close-ends-iterators": Difference(
        reason="an iterator of a closed store does not end as if the data were over",
        requirement="SES-22",
        expect={6: {"raises": "closed"}},
        without=frozenset({4}),  # looking ahead would keep the item
    ),
    "session/closed-reads-empty": Difference(
        reason="a closed store refuses to be read; an empty answer looks like data",
        requirement="COM-15",
        expect={6: {"raises": "closed"}},
    ),
    "session/open-iterators-delay-expiry": Difference(
        reason="iterators are frozen at the call, and sessions ordered by key first",
        requirement="SES-14",
        expect={
            5: [
                {"key": key, "start": start, "end": end}
                for key, start, end in (("a", 0, 0), ("a", 10, 20), ("aa", 0, 10))
            ]
        },
    ),
    "session/remove-keeps-stream-time": Difference(
        reason="a removal is a change like another, so that a replay of it gives the same store",
        requirement="SES-4",
        expect={2: None},
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
