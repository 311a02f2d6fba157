"""Joins of streams, drawn: with a stream, a table, its history or a global table."""

from typing import Any

from drawing import Drawing, Flow
from drawn_records import small

import statestores as ss
from statestores.processing import Record, within


def joined_with_table(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Join with a table."""
    table = partner(drawing, flow, drawing.tables)
    if table is None:
        return [flow]
    how = drawing.random.choice(["inner", "left"])
    drawing.say(flow, f"join({table.steps!r}, {how})")
    steps = flow.steps.join(
        table.steps, drawing.joiner("join"), how=how, value=ss.json, name=drawing.name("join")
    )
    return [Flow(steps, flow.key, "json")]


def joined_with_global_table(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Join with a global table, by the record's own key or by one of two others."""
    tables = [each for each in drawing.global_tables if each.key == flow.key]
    if not tables or flow.is_windowed:
        return [flow]
    table = drawing.random.choice(tables)
    how = drawing.random.choice(["inner", "left"])
    one = "a" if flow.key == "utf8" else 0
    check = drawing.failing("key of a global table")

    def select(record: Record[Any, Any]) -> Any:
        check(record.value)
        return one if small(record.value) % 2 else record.key

    drawing.say(flow, f"join({table.steps!r}, {how})")
    steps = flow.steps.join(
        table.steps,
        drawing.joiner("join with a global table"),
        key=select,
        how=how,
        value=ss.json,
        name=drawing.name("join"),
    )
    return [Flow(steps, flow.key, "json")]


def joined_as_of(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Join with a versioned table as of the records' times."""
    table = partner(drawing, flow, drawing.versioned)
    if table is None:
        return [flow]
    wait_ms = min(drawing.random.choice([0, 0, 3, 8]), table.history_ms)
    how = drawing.random.choice(["inner", "left"])
    rows = table.steps
    if drawing.random.random() < 0.2:
        rows = rows.filter(lambda record: small(record.value) != 1)
    drawing.say(flow, f"join_as_of({rows!r}, {how}, wait {wait_ms} ms)")
    steps = flow.steps.join_as_of(
        rows,
        drawing.joiner("join_as_of"),
        how=how,
        wait_ms=wait_ms,
        value=ss.json,
        name=drawing.name("as-of"),
    )
    return [Flow(steps, flow.key, "json")]


def joined_with_stream(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Join with a source."""
    other = partner(drawing, flow, drawing.streams)
    if other is None:
        return [flow]
    how = drawing.random.choice(["inner", "left", "outer"])
    window = within(drawing.random.choice([0, 3, 6]), grace_ms=drawing.random.choice([0, 4]))
    drawing.say(flow, f"join({other.steps!r}, {window}, {how})")
    steps = flow.steps.join(
        other.steps,
        drawing.joiner("join of streams"),
        within=window,
        how=how,
        value=ss.json,
        name=drawing.name("meet"),
    )
    return [Flow(steps, flow.key, "json")]


def partner(drawing: Drawing, flow: Flow, others: list[Flow]) -> Flow | None:
    """Return one of *others* that *flow* may meet."""
    fit = [each for each in others if each.key == flow.key and each.steps is not flow.steps]
    if not fit or flow.is_windowed or drawing.is_crossed or flow.steps._is_rekeyed:
        return None
    return drawing.random.choice(fit)
