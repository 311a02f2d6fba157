"""A topology drawn from a seed: sources of every kind, and up to nine steps behind them."""

import random
from typing import Any

from drawing import Drawing, Flow
from drawn_records import SERDES, Source
from drawn_streams import STREAM_STEPS
from drawn_tables import TABLE_STEPS

import statestores as ss
from statestores.processing import DeadLetter, ErrorPolicy, Topic, Topology

LETTERS = ("dead", "dead2")
"""The topics of dead letters."""


def drawn_topology(seed: int, prefix: str = "") -> Drawing:
    """Return the topology of *seed*, written down anew; its topics' names begin with *prefix*."""
    drawn = random.Random(seed)
    policy, may_fail = _policy(drawn, prefix)
    drawing = Drawing(drawn, Topology(f"{prefix}drawn", errors=policy), may_fail, prefix)
    drawing.said.append(f"errors={policy}")
    key = drawn.choice(["utf8", "utf8", "utf8", "int64"])
    for number in range(drawn.choice([1, 1, 1, 2, 2, 3])):
        value = drawn.choice(["int64", "int64", "float64", "utf8", "json", "json", "raw"])
        drawing.sources.append(Source(f"in{number}", key, value))
    for source in drawing.sources:
        _read(drawing, source)
    waiting = list(drawing.streams)
    steps = drawn.randint(3, 9)
    while waiting and steps:
        steps -= 1
        flow = waiting.pop(drawn.randrange(len(waiting)))
        kinds: dict[Any, int] = TABLE_STEPS if flow.is_table else STREAM_STEPS
        (step,) = drawn.choices(list(kinds), weights=list(kinds.values()))
        waiting += step(drawing, flow)
    for flow in (*waiting, *drawing.tables):
        if not flow.is_table or drawn.random() < 0.8:
            drawing.write(flow)
    return drawing


def _policy(drawn: random.Random, prefix: str) -> tuple[Any, bool]:
    """Return an error policy, and whether something is to fail."""
    dead, dead_too = (DeadLetter(Topic(prefix + name)) for name in LETTERS)
    mixed = ErrorPolicy(
        decode=drawn.choice(["skip", dead]),
        process=drawn.choice(["fail", "skip", dead]),
        encode=drawn.choice(["fail", "skip", dead_too]),
    )
    policy: Any = drawn.choice(["skip", "skip", dead, mixed, "fail", "fail"])
    return policy, policy != "fail"


def _read(drawing: Drawing, source: Source) -> None:
    """Read *source* as a stream, which the first one is, or as a table of some kind."""
    drawn = drawing.random
    topic = Topic(drawing.prefix + source.topic, key=SERDES[source.key], value=SERDES[source.value])
    ways = ["stream", "stream", "table", "versioned", "global"]
    way = drawn.choice(ways) if source.topic != "in0" else "stream"
    drawing.said.append(f"{way} of {source}")
    if way == "stream":
        how: dict[str, Any] = {}
        if drawn.random() < 0.08:
            how["time"] = lambda record: record.time_ms + 3 * (record.value is not None)
        elif drawn.random() < 0.06:
            how["use_partition_time"] = True
        stream = drawing.topology.stream(topic, **how)
        drawing.streams.append(Flow(stream, source.key, source.value))
        return
    name, history_ms = drawing.store_name(way), 0
    store: Any = drawing.key_value(name, source.key, source.value)
    if way == "versioned":
        history_ms = drawn.choice([0, 5, 20, 1000])
        key, value = SERDES[source.key], SERDES[source.value]
        store = ss.Versioned(name, history_retention_ms=history_ms, key=key, value=value)
    if way == "global":
        table: Any = drawing.topology.global_table(topic, store)
        drawing.global_tables.append(Flow(table, source.key, source.value))
        return
    table = Flow(
        drawing.topology.table(topic, store),
        source.key,
        source.value,
        is_table=True,
        history_ms=history_ms,
    )
    (drawing.versioned if way == "versioned" else drawing.tables).append(table)
