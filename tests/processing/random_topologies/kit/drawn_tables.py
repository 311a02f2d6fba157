"""Steps of tables, drawn: each is a function that returns the flows that come of one."""

from collections.abc import Callable
from typing import Any

from drawing import Drawing, Flow
from drawn_records import KEYS, SERDES, number, small

import statestores as ss
from statestores.processing import Record

Step = Callable[[Drawing, Flow], list[Flow]]


def filtered(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Keep some rows."""
    check = drawing.failing("filter of a table")

    def keep(record: Record[Any, Any]) -> bool:
        check(record.value)
        found = number(record.value)
        return bool(found != found or found > 1)  # noqa: PLR0124  # NaN

    store = _store(drawing, flow, flow.value)
    drawing.say(flow, f"filter({store!r})")
    return [_like(flow, flow.steps.filter(keep, store), flow.value)]


def mapped_values(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Make other values."""
    value = drawing.random.choice([flow.value, "json"])
    check = drawing.failing("map_values of a table")

    def change(given: Any) -> Any:
        check(given)
        return given if value == flow.value else [repr(given)]

    store = _store(drawing, flow, value)
    drawing.say(flow, f"map_values({value}, {store!r})")
    serde = None if store is not None else SERDES[value]
    return [_like(flow, flow.steps.map_values(change, store, value=serde), value)]


def suppressed(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Hold rows back."""
    drawn = drawing.random
    ways: list[dict[str, Any]] = [
        {"wait_ms": drawn.choice([0, 3, 9])},
        {"max_rows": drawn.choice([0, 1, 2])},
        {"wait_ms": 5, "max_rows": 2},
    ]
    if flow.is_updated:
        ways.append({"until_closed": True})
    way = drawn.choice(ways)
    drawing.say(flow, f"suppress({way})")
    return [_like(flow, flow.steps.suppress(**way, name=drawing.name("held")), flow.value)]


def grouped(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Aggregate rows by another key, through a topic."""
    if drawing.has_several_sources:
        return [flow]
    drawing.is_crossed = True
    name = drawing.store_name("groups")
    store = drawing.key_value(name, "utf8", "json")
    way = drawing.random.choice(["count", "sum", "min", "max", "reduce"])
    drawing.say(flow, f"group_by().{way}({name})")
    group = flow.steps.group_by(
        lambda record: "even" if number(record.value) % 2 == 0 else "odd",
        lambda record: small(record.value),
        key_serde=ss.utf8,
        value_serde=ss.json,
    )
    if way == "count":
        table = group.count(store)
    elif way == "reduce":
        table = group.reduce(lambda a, b: a + b, lambda a, b: a - b, store)
    else:
        table = getattr(group, way)("value", store)
    return [Flow(table, "utf8", "json", is_table=True)]


def joined(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Join with a source's table by key."""
    others = [
        each for each in drawing.tables if each.key == flow.key and each.steps is not flow.steps
    ]
    if not others or flow.is_windowed or drawing.is_crossed:
        return [flow]
    how = drawing.random.choice(["inner", "left", "outer"])
    other = drawing.random.choice(others)
    store = _store(drawing, flow, "json")
    drawing.say(flow, f"join({other.steps!r}, {how}, {store!r})")
    table = flow.steps.join(
        other.steps, drawing.joiner("join of tables"), store, how=how, name=drawing.name("join")
    )
    return [Flow(table, flow.key, "json", is_table=True)]


def joined_by_foreign_key(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Join with a source's table by what a value says."""
    others = [
        each
        for each in (*drawing.tables, *drawing.versioned)
        if each.key == flow.key and each.steps is not flow.steps
    ]
    if not others or flow.is_windowed or drawing.is_crossed:
        return [flow]
    drawing.is_crossed = drawing.goes_around = True
    check, keys = drawing.failing("foreign key"), KEYS[flow.key]

    def select(value: Any) -> Any:
        check(value)
        return None if value == 2 else keys[small(value) % 3]

    how, other = drawing.random.choice(["inner", "left"]), drawing.random.choice(others)
    drawing.say(flow, f"join({other.steps!r}, {how}, by a foreign key)")
    table = flow.steps.join(
        other.steps,
        drawing.joiner("join by a foreign key"),
        drawing.key_value(drawing.store_name("found"), flow.key, "json"),
        foreign_key=select,
        how=how,
        name=drawing.name("foreign"),
    )
    return [Flow(table, flow.key, "json", is_table=True)]


def streamed(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Go on with the updates as records."""
    drawing.say(flow, "to_stream()")
    return [Flow(flow.steps.to_stream(), flow.key, flow.value, is_windowed=flow.is_windowed)]


def written(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Write, and go on."""
    drawing.write(flow)
    return [flow]


def _store(drawing: Drawing, flow: Flow, value: str) -> Any:
    """Return the specification of a store in three of ten cases."""
    if flow.is_windowed or drawing.random.random() > 0.3:
        return None
    return drawing.key_value(drawing.store_name("rows"), flow.key, value)


def _like(flow: Flow, steps: Any, value: str) -> Flow:
    return Flow(
        steps,
        flow.key,
        value,
        is_table=True,
        is_windowed=flow.is_windowed,
        is_updated=flow.is_updated,
    )


TABLE_STEPS: dict[Step, int] = {
    filtered: 1,
    mapped_values: 2,
    suppressed: 2,
    grouped: 1,
    joined: 3,
    joined_by_foreign_key: 5,
    streamed: 2,
    written: 1,
}
"""Each step, and how often it is drawn."""
