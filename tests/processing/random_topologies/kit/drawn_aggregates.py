"""Aggregates, drawn: by key, in windows, of two groups together."""

from collections.abc import Callable
from typing import Any, NamedTuple

from drawing import Drawing, Flow
from drawn_records import SERDES

import statestores as ss
from statestores.processing import (
    Record,
    closed,
    hopping,
    session,
    sliding,
    tumbling,
    updates,
)

_EMPTY = (2, 2.5, "x", b"x")
"""Values at which an aggregate becomes none."""


class _Fold(NamedTuple):
    """What an aggregate does, and the serde of what comes of it."""

    name: str
    value: str
    of: Callable[..., Any]
    """From the group and the arguments that follow to the table."""


def aggregate(drawing: Drawing, flow: Flow) -> Flow:
    """Return the table of an aggregate by key."""
    name = drawing.store_name("sums")
    fold = _fold(drawing, flow)
    key, value = SERDES[flow.key], SERDES[fold.value]
    if drawing.random.random() < 0.07:
        store: Any = ss.TimestampedKeyValue(name, key=key, value=value, ttl_ms=15)
    else:
        kind = drawing.random.choice([ss.KeyValue, ss.KeyValue, ss.TimestampedKeyValue])
        store = kind(name, key=key, value=value)
    drawing.say(flow, f"group_by_key().{fold.name}({store!r})")
    group = flow.steps.group_by_key(key=key, value=flow.value_serde)
    return Flow(fold.of(group, store), flow.key, fold.value, is_table=True)


def windowed_aggregate(drawing: Drawing, flow: Flow) -> Flow:
    """Return the table of an aggregate in windows."""
    name, fold = drawing.store_name("windows"), _fold(drawing, flow, is_windowed=True)
    windows = _windows(drawing)
    emission = drawing.random.choice([updates(), updates(), closed()])
    store = _window_store(drawing, name, windows, flow.key, fold.value)
    drawing.say(flow, f"window({windows}, {emission}).{fold.name}({store!r})")
    group = flow.steps.group_by_key(key=SERDES[flow.key], value=flow.value_serde).window(windows)
    is_session = isinstance(store, ss.Session)
    merge = {"merge": lambda a, b: (a + b)[-6:]} if is_session and fold.name == "aggregate" else {}
    table = fold.of(group, store, emit=emission, **merge)
    return Flow(
        table,
        flow.key,
        fold.value,
        is_table=True,
        is_windowed=True,
        is_updated=not emission.on_close,
    )


def cogroup(drawing: Drawing, flow: Flow, other: Flow) -> Flow:
    """Return the table of two groups that are folded into one, by key or in windows."""
    name = drawing.store_name("both")
    groups = [
        each.steps.group_by_key(key=SERDES[flow.key], value=each.value_serde)
        for each in (flow, other)
    ]
    both = groups[0].cogroup(_add(drawing, "<")).cogroup(groups[1], _add(drawing, ">"))
    if drawing.random.random() < 0.5:
        drawing.say(flow, f"cogroup({other.steps!r}).aggregate({name})")
        table = both.aggregate(list, drawing.key_value(name, flow.key, "json"))
        return Flow(table, flow.key, "json", is_table=True)
    windows = _windows(drawing)
    emission = drawing.random.choice([updates(), closed()])
    store = _window_store(drawing, name, windows, flow.key, "json")
    merge = {"merge": lambda a, b: (a + b)[-6:]} if isinstance(store, ss.Session) else {}
    drawing.say(flow, f"cogroup({other.steps!r}).window({windows}, {emission}).aggregate({name})")
    table = both.window(windows).aggregate(list, store, emit=emission, **merge)
    return Flow(
        table,
        flow.key,
        "json",
        is_table=True,
        is_windowed=True,
        is_updated=not emission.on_close,
    )


def _windows(drawing: Drawing) -> Any:
    """Return windows of a kind and a grace."""
    drawn = drawing.random
    kind = drawn.choice(["tumbling", "hopping", "sliding", "session"])
    grace_ms = drawn.choice([0, 0, 3, 4, 20])
    if kind == "tumbling":
        return tumbling(drawn.choice([3, 5, 10]), grace_ms=grace_ms)
    if kind == "hopping":
        return hopping(drawn.choice([4, 6]), drawn.choice([1, 2, 4]), grace_ms=grace_ms)
    if kind == "sliding":
        return sliding(drawn.choice([2, 5]), grace_ms=grace_ms)
    return session(drawn.choice([1, 3]), grace_ms=grace_ms)


def _window_store(drawing: Drawing, name: str, windows: Any, key: str, value: str) -> Any:
    """Return the specification of a store that takes *windows*."""
    retention_ms = windows.least_retention_ms + drawing.random.choice([0, 1, 30])
    serdes = {"key": SERDES[key], "value": SERDES[value]}
    if type(windows).__name__ == "SessionWindows":
        return ss.Session(name, retention_ms=retention_ms, **serdes)
    size_ms = windows.store_size_ms
    return ss.Window(name, retention_ms=retention_ms, window_size_ms=size_ms, **serdes)


def _fold(drawing: Drawing, flow: Flow, *, is_windowed: bool = False) -> _Fold:
    """Return what to do with a group of *flow*."""
    name = drawing.random.choice(
        ["count", "count", "sum", "min", "max", "mean", "reduce", "aggregate", "aggregate"]
    )
    if name == "count":
        return _Fold(name, "int64", lambda group, store, **how: group.count(store, **how))
    if name == "reduce":
        check = drawing.failing("reduce")

        def greatest(one: Any, other: Any) -> Any:
            check(other)
            return other if repr(other) > repr(one) else one

        return _Fold(
            name, flow.value, lambda group, store, **how: group.reduce(greatest, store, **how)
        )
    if name == "aggregate":
        add = _last_six(drawing) if is_windowed else _add(drawing, "")
        return _Fold(
            name, "json", lambda group, store, **how: group.aggregate(list, add, store, **how)
        )
    select: Any = "value"
    value = drawing.random.choice([flow.value, flow.value, "json"])
    if flow.value not in {"int64", "float64"}:
        select, value = _size(drawing), "json"
    if name == "mean":
        value = "float64"
    return _Fold(
        name, value, lambda group, store, **how: getattr(group, name)(select, store, **how)
    )


def _size(drawing: Drawing) -> Callable[[Record[Any, Any]], Any]:
    """Return what selects a number, or what is none, of a value."""
    check = drawing.failing("select")

    def select(record: Record[Any, Any]) -> Any:
        check(record.value)
        value = record.value
        return len(value) if isinstance(value, str | bytes | list | dict) else value

    return select


def _add(drawing: Drawing, mark: str) -> Callable[[list[str], Any], list[str] | None]:
    """Return a fold that changes the list it is given."""
    check = drawing.failing("aggregate")

    def add(aggregate: list[str], value: Any) -> list[str] | None:
        check(value)
        if not isinstance(value, list | dict) and value in _EMPTY:
            return None
        aggregate.append(mark + repr(value)[:6])
        return aggregate[-4:]

    return add


def _last_six(drawing: Drawing) -> Callable[[list[str], Any], list[str] | None]:
    """Return a fold that makes a new list."""
    check = drawing.failing("aggregate")

    def add(aggregate: list[str], value: Any) -> list[str] | None:
        check(value)
        if not isinstance(value, list | dict) and value in _EMPTY:
            return None
        return [*aggregate, repr(value)[:6]][-6:]

    return add
