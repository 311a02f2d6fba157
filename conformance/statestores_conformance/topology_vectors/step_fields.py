"""The fields of a step: which are known, in which words, and what they say where words differ.

A case may have a field that we do not know and need not: it is run all the same. If what comes out
is other than expected, `unknown_fields` says what was not looked at.
"""

from collections.abc import Sequence
from typing import Any

from statestores.errors import InvalidArgumentError

Step = dict[str, Any]

_OF_A_PROCESSOR = frozenset(
    {"on_record", "store", "every", "clock", "on_time", "start", "cancel_after", "by"}
)
_OF_A_WINDOW = frozenset({"grace", "emit"})
_OF_AN_AGGREGATE = frozenset({"initial", "fold", "unfold", "store", "retention", "emit"})
_FIELDS: dict[str, frozenset[str]] = {
    "stream": frozenset({"topic"}),
    "table": frozenset({"topic", "store", "versioned"}),
    "global_table": frozenset({"topic", "store", "versioned"}),
    "to": frozenset({"topic"}),
    "filter": frozenset({"fn", "store"}),
    "filter_not": frozenset({"fn", "store"}),
    "map_values": frozenset({"fn", "store"}),
    "flat_map_values": frozenset({"fn"}),
    "map": frozenset({"key", "value"}),
    "flat_map": frozenset({"fn"}),
    "select_key": frozenset({"fn", "key"}),
    "peek": frozenset(),
    "split": frozenset({"branches", "rest"}),
    "merge": frozenset({"other"}),
    "repartition": frozenset({"partitions"}),
    "to_stream": frozenset(),
    "to_table": frozenset({"store", "versioned"}),
    "process": _OF_A_PROCESSOR,
    "group_by_key": frozenset(),
    "group_by": frozenset({"fn", "key", "value"}),
    "tumbling": _OF_A_WINDOW | {"size"},
    "hopping": _OF_A_WINDOW | {"size", "advance"},
    "sliding": _OF_A_WINDOW | {"difference"},
    "session": _OF_A_WINDOW | {"gap"},
    "count": _OF_AN_AGGREGATE,
    "reduce": _OF_AN_AGGREGATE,
    "aggregate": _OF_AN_AGGREGATE,
    "cogroup": frozenset({"groups", "others", "other", "folds", "fold", "initial", "store"}),
    "join": frozenset(
        {
            *("other", "how", "joiner", "foreign_key", "store", "fn", "key"),
            *("within", "before", "after", "grace"),
        }
    ),
}
"""What each step may have beside its own name and what it comes from; `suppress` checks itself."""

_WORDS = {"emit": ("close", "update", "updates"), "joiner": ("plus",)}


def check_words(step: Step) -> None:
    """Accept the words of a step for which there is a choice.

    Raises:
        InvalidArgumentError: One is not known.
    """
    for name, known in _WORDS.items():
        if step.get(name, known[0]) not in known:
            raise InvalidArgumentError(
                f"the step {step.get('id')!r} has {name} {step[name]!r}; known are: "
                f"{', '.join(known)}"
            )


def unknown_fields(steps: Sequence[Step]) -> list[str]:
    """Return in words which fields of *steps* say something that is not looked at."""
    return [
        f"the field {name!r} of the step {step.get('id', step['op'])!r} is not known"
        for step in steps
        for name in sorted(step.keys() - _FIELDS.get(step["op"], step.keys()))
        if name not in ("op", "id", "from")
    ]


_LIMITS = {
    "time_limit": "wait_ms",
    "max_records": "max_rows",
    "max_rows": "max_rows",
    "records": "max_rows",
    "record_limit": "max_rows",
}
"""How a step may call its limits, and what they are."""

_WHEN_FULL = {
    "emit": "emit",
    "emit_early": "emit",
    "emit_early_when_full": "emit",
    "fail": "fail",
    "shut_down": "fail",
    "shut_down_when_full": "fail",
}


def suppression_limits(step: Step) -> dict[str, Any]:
    """Return until when a suppress step has rows wait, in whichever words it says it.

    Raises:
        InvalidArgumentError: It says nothing, or something that is not known.
    """
    said = {name: value for name, value in step.items() if name not in ("op", "id", "from")}
    said.update(said.pop("buffer", None) or {})
    until = said.pop("until", None)
    if until not in (None, "window_closes", "time_limit"):
        raise InvalidArgumentError(
            f"the suppress step {step.get('id')!r} is until {until!r}; known are 'window_closes' "
            "and 'time_limit'"
        )
    found: dict[str, Any] = {"until_closed": until == "window_closes"}
    for name, value in said.items():
        if name in _LIMITS:
            found[_LIMITS[name]] = value
        elif name in ("when_full", "full", "on_full") and value in _WHEN_FULL:
            found["when_full"] = _WHEN_FULL[value]
        elif name != "store":
            raise InvalidArgumentError(
                f"a suppress step has {name!r}: {value!r}, which is not known; known are until, "
                f"{', '.join(_LIMITS)} and when_full"
            )
    if not (found["until_closed"] or found.keys() & {"wait_ms", "max_rows"}):
        raise InvalidArgumentError(f"the suppress step {step.get('id')!r} says no limit")
    return found


def cogrouped_parts(step: Step) -> list[tuple[str, str]]:
    """Return the groups of a cogroup step, each with its fold, in the forms it may be written."""
    if "groups" in step:
        return [(each["from"], each["fold"]) for each in step["groups"]]
    sources = step["from"] if isinstance(step["from"], list) else [step["from"]]
    more = step.get("others", step.get("other", []))
    for other in more if isinstance(more, list) else [more]:
        sources = [*sources, other]
    folds = step.get("folds", step.get("fold"))
    folds = folds if isinstance(folds, list) else [folds] * len(sources)
    pairs = []
    for source, named in zip(sources, folds, strict=True):
        if isinstance(source, dict):
            pairs.append((source["from"], source.get("fold", named)))
        else:
            pairs.append((source, named))
    return pairs
