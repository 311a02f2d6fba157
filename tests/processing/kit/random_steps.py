"""Random topologies of a few steps and one end, run record by record, in batches, or in runs."""

import operator
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
from drawn_bytes import drawn_lists
from hypothesis import strategies as st

import statestores as ss
from statestores.processing import (
    Record,
    Stream,
    Topic,
    Topology,
    closed,
    hopping,
    session,
    tumbling,
    updates,
    windowed,
)

IN = Topic("in", key=ss.utf8, value=ss.int64)
RATES = Topic("rates", key=ss.utf8, value=ss.int64)
OUT = Topic("out", key=ss.utf8, value=ss.int64)
STORE = ss.KeyValue("store", key=ss.utf8, value=ss.int64)
WINDOWS = ss.Window("store", retention_ms=40, window_size_ms=10, key=ss.utf8, value=ss.int64)
SESSIONS = ss.Session("store", retention_ms=20, key=ss.utf8, value=ss.int64)
FOLDS = ("count", "sum", "min", "max", "reduce by min", "reduce by add", "reduce", "deleting")
SUMS = ("sum", "reduce by add", "deleting")
REDUCERS: dict[str, Any] = {
    "reduce by min": min,
    "reduce by add": operator.add,
    "reduce": lambda one, other: other,
}

_NUMBERS = tuple(range(-5, 6))
RECORDS = drawn_lists(
    (
        ("a", "b", "c", None),
        (*[None] * len(_NUMBERS), *_NUMBERS, *[1 << 62] * len(_NUMBERS)),
        range(61),
    ),
    min_size=0,
    max_size=30,
).map(lambda rows: [Record(*row) for row in rows])
STEPS = (
    *("filter", "filter_not", "map", "rekey"),
    *("filter by function", "map by function", "records by function", "values by function"),
    *("batches", "flat records by function", "flat values by function", "rekey by function"),
)
ENDS = (
    *("sink", "group", "window", "hopping", "join", "table", "updates"),
    *("sessions", "closed sessions"),
)
STEP_NAMES = st.lists(st.sampled_from(STEPS), max_size=3)


def _negative(value: int | None) -> int | None:
    return None if value is None else -value


BY_FUNCTION: dict[str, Callable[[Stream[Any, Any]], Stream[Any, Any]]] = {
    "filter by function": lambda stream: stream.filter(lambda record: record.value),
    "map by function": lambda stream: stream.map(
        lambda record: _negative(record.value), value=ss.int64
    ),
    "records by function": lambda stream: stream.map(
        lambda record: (
            record
            if record.value is None
            else Record(record.key, record.value // 2, record.time_ms + 1, (("h", b"1"),))
        ),
        key=ss.utf8,
        value=ss.int64,
    ),
    "values by function": lambda stream: stream.map_values(_negative, value=ss.int64),
    "flat records by function": lambda stream: stream.flat_map(
        lambda record: [record, record.value, record.with_key("d")][: record.time_ms % 4],
        key=ss.utf8,
        value=ss.int64,
    ),
    "flat values by function": lambda stream: stream.flat_map_values(
        lambda value: [value] * (0 if value is None else value % 3), value=ss.int64
    ),
    "batches": lambda stream: stream.rekey("key", key=ss.utf8).batches(
        lambda batch: batch.filter(pc.greater(batch["value"], -3)), key=ss.utf8, value=ss.int64
    ),
    "rekey by function": lambda stream: stream.rekey(
        lambda record: record.key and record.key * 2, key=ss.utf8
    ),
}


def _folded(grouped: Any, fold: str, selected: tuple[Any, ...], store: Any, **more: Any) -> Any:
    """Return the aggregate by *fold*; one of them deletes what a zero is added to."""
    if fold != "deleting":
        return getattr(grouped, fold)(*selected, store, **more)
    if isinstance(store, ss.Session):
        more["merge"] = operator.add
    return grouped.aggregate(int, _unless_zero, store, **more)


def _unless_zero(total: int, value: int) -> int | None:
    return total + value if value else None


def _stream(topology: Topology, names: list[str]) -> Stream[Any, Any]:
    stream: Stream[Any, Any] = topology.stream(IN)
    for name in names:
        if name == "map":
            stream = stream.map_values(pc.add(pc.field("value"), 1), value=ss.int64)
        elif name == "rekey":
            stream = stream.rekey("key", key=ss.utf8)
        elif name in BY_FUNCTION:
            stream = BY_FUNCTION[name](stream)
        else:
            stream = getattr(stream, name)(pc.field("value") > 0)
    return stream


def topology_of(names: list[str], end: str, fold: str) -> Topology:
    """Return a topology of the steps *names*, which ends in *end*, with aggregates by *fold*."""
    topology = Topology("batches")
    rates: Any = topology.table(
        RATES, ss.Versioned("rates", history_retention_ms=1_000, key=ss.utf8, value=ss.int64)
    )
    stream = _stream(topology, names)
    selected = () if fold == "count" else (REDUCERS.get(fold, "value"),)
    fold = fold.partition(" ")[0]
    if end == "join":
        joiner: Any = pc.add(pc.field("value"), pc.field("other"))
        stream.join_as_of(rates, joiner, value=ss.int64).to(OUT)
    elif end == "group":
        _folded(stream.group_by_key(key=ss.utf8), fold, selected, STORE).to(OUT)
    elif end == "table":
        negated: Any = stream.to_table(STORE).map_values(_negative)
        negated.to_stream().to(OUT)
    elif end == "updates":
        windows: Any = stream.group_by_key(key=ss.utf8).window(hopping(10, 5, grace_ms=5))
        table = _folded(windows, fold, selected, WINDOWS)
        table.to_stream().to(Topic("out", key=windowed(ss.utf8), value=ss.int64))
    elif end in ("sessions", "closed sessions"):
        sessions: Any = stream.group_by_key(key=ss.utf8).window(session(4, grace_ms=5))
        emission = closed() if end == "closed sessions" else updates()
        table = _folded(sessions, fold, selected, SESSIONS, emit=emission)
        table.to_stream().to(Topic("out", key=windowed(ss.utf8), value=ss.int64))
    elif end in ("window", "hopping"):
        size = tumbling(10, grace_ms=5) if end == "window" else hopping(10, 4, grace_ms=5)
        grouped: Any = stream.group_by_key(key=ss.utf8).window(size)
        _folded(grouped, fold, selected, WINDOWS, emit=closed()).to_stream().rekey(
            lambda record: record.key.key, key=ss.utf8
        ).to(OUT)
    else:
        stream.to(OUT)
    return topology


def outcome(
    names: list[str],
    end: str,
    fold: str,
    size: int,
    inputs: list[Record[Any, Any]],
    cache_max_bytes: int = 0,
    *,
    is_run: bool = False,
) -> tuple[list[Any], list[Any], int]:
    """Return what came out, what is in the store, and how many were dropped."""
    with topology_of(names, end, fold).test(cache_max_bytes=cache_max_bytes) as driver:
        driver.topic("rates").pipe(7, "a", time_ms=0)
        driver.topic("rates").pipe(8, "a", time_ms=30)
        if is_run:
            driver.to_batches(size, least_run_rows=1)
        else:
            driver.to_batches(size, least_column_rows=1)
        driver.topic("in").pipe_all(inputs)
        rows: list[Any] = []
        if "store" in driver.graph.stores:
            store = driver.store("store", stamped=True)
            kinds = ("find_all_sessions", "fetch_all", "range")
            rows = list(next(getattr(store, each) for each in kinds if hasattr(store, each))())
        return driver.topic("out").read_all(), rows, driver.dropped_total
