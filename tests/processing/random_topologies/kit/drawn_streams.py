"""Steps of streams, drawn: each is a function that returns the flows that come of one."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from drawing import Drawing, Flow
from drawn_aggregates import aggregate, cogroup, windowed_aggregate
from drawn_joins import (
    joined_as_of,
    joined_with_global_table,
    joined_with_stream,
    joined_with_table,
    partner,
)
from drawn_records import SERDES, number, small

import statestores as ss
from statestores.errors import InvalidTopologyError
from statestores.processing import BatchProcessor, Processor, Record

Step = Callable[[Drawing, Flow], list[Flow]]


def filtered(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Keep some records."""
    check = drawing.failing("filter")

    def keep(record: Record[Any, Any]) -> object:
        check(record.value)
        if isinstance(record.value, float):
            return record.value > 0
        return number(record.value) % 2 or record.value is None

    is_kept = drawing.random.random() < 0.5
    drawing.say(flow, "filter" if is_kept else "filter_not")
    steps = flow.steps.filter(keep) if is_kept else flow.steps.filter_not(keep)
    return [Flow(steps, flow.key, flow.value, is_windowed=flow.is_windowed)]


def mapped_values(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Make other values, or none."""
    value = drawing.random.choice([flow.value, "json"])
    shows = value == "json" and flow.value != "json"
    check = drawing.failing("map_values")

    def change(given: Any) -> Any:
        check(given)
        if not shows:
            return given
        return None if given is None or given == 2 else [repr(given)]

    drawing.say(flow, f"map_values({value})")
    steps = flow.steps.map_values(change, value=SERDES[value])
    return [Flow(steps, flow.key, value, is_windowed=flow.is_windowed)]


def mapped(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Make other records: values, times, headers."""
    way = drawing.random.choice(["value", "record", "time", "headers"])
    check = drawing.failing("map")

    def change(record: Record[Any, Any]) -> Any:
        check(record.value)
        if way == "record":
            return record.with_value(record.value)
        if way == "time" and record.time_ms % 3:
            return record.with_time(max(0, record.time_ms - 2))
        if way == "headers":
            return record._replace(headers=(*record.headers, ("m", b"1")))
        return record.value

    drawing.say(flow, f"map({way})")
    steps = flow.steps.map(change, key=flow.key_serde, value=flow.value_serde)
    return [Flow(steps, flow.key, flow.value, is_windowed=flow.is_windowed)]


def flattened(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Make none, one or two of each."""
    check = drawing.failing("flat_map")
    of_values = drawing.random.random() < 0.5

    def several(value: Any) -> list[Any]:
        check(value)
        return [] if value is None else [value] * (small(value) % 3)

    drawing.say(flow, "flat_map_values" if of_values else "flat_map")
    if of_values:
        steps = flow.steps.flat_map_values(several, value=flow.value_serde)
    else:
        steps = flow.steps.flat_map(
            lambda record: several(record.value), key=flow.key_serde, value=flow.value_serde
        )
    return [Flow(steps, flow.key, flow.value, is_windowed=flow.is_windowed)]


def rekeyed(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Give some records one key."""
    if drawing.has_several_sources:
        return [flow]
    check = drawing.failing("rekey")
    one = "k" if flow.key == "utf8" else 3

    def select(record: Record[Any, Any]) -> Any:
        check(record.value)
        if record.value is None:
            return None
        return one if small(record.value) > 2 else record.key

    drawing.say(flow, "rekey")
    return [Flow(flow.steps.rekey(select, key=SERDES[flow.key]), flow.key, flow.value)]


def split(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Part in two."""
    check = drawing.failing("split")

    def is_even(record: Record[Any, Any]) -> bool:
        check(record.value)
        return record.value is None or number(record.value) % 2 == 0

    drawing.say(flow, "split")
    return [
        Flow(steps, flow.key, flow.value, is_windowed=flow.is_windowed)
        for steps in flow.steps.split(is_even, rest=True)
    ]


def written(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Write, and go on."""
    drawing.write(flow)
    return [flow]


def merged(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Merge with a source of the same types."""
    others = [
        each
        for each in drawing.streams
        if (each.key, each.value) == (flow.key, flow.value) and each.steps is not flow.steps
    ]
    if not others or flow.is_windowed or drawing.is_crossed:
        return [flow]
    drawing.say(flow, "merge")
    return [Flow(flow.steps.merge(drawing.random.choice(others).steps), flow.key, flow.value)]


class _Counting(Processor[Any, Any, Any, Any]):
    """Counts what comes, and tells it at times."""

    specification: ss.KeyValue[str, int]
    every_ms: int
    check: Any

    def open(self, context: Any) -> None:
        """Ask for the time."""
        if self.every_ms:
            context.every(self.every_ms, self.tick)

    def process(self, record: Record[Any, Any]) -> None:
        """Count, and give on."""
        store = self.store(self.specification)
        count = (store.get("n") or 0) + 1
        store.put("n", count)
        type(self).check(record.value)
        self.forward(record.with_value([count, repr(record.value)]))

    def tick(self, now_ms: int) -> None:
        """Tell how many there were."""
        self.forward(Record("tick", [now_ms, self.store(self.specification).get("n")], now_ms))


def processed(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Go through a processor with a store, at times with a timer."""
    if flow.is_windowed:
        return [flow]
    name, every_ms = drawing.store_name("proc"), drawing.random.choice([0, 0, 4, 10])
    members = {
        "specification": ss.KeyValue(name, key=ss.utf8, value=ss.int64),
        "every_ms": every_ms if flow.key == "utf8" else 0,
        "check": staticmethod(drawing.failing("process")),
    }
    drawing.say(flow, f"process_values({name}, every {every_ms} ms)")
    steps = flow.steps.process_values(type(name, (_Counting,), members), name=name, value=ss.json)
    return [Flow(steps, flow.key, "json")]


def batches(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Go through a function of batches."""
    if flow.is_windowed:
        return [flow]
    check = drawing.failing("batches")

    def odd(batch: Any) -> Any:
        check(*batch.column("value").to_pylist())
        return batch.filter(pc.not_equal(pc.bit_wise_and(batch.column("time_ms"), 1), 0))

    return _if_it_can_be(
        drawing,
        flow,
        "batches",
        lambda: flow.steps.batches(odd, key=flow.key_serde, value=flow.value_serde),
    )


def processed_batches(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Go through a processor of batches with a store."""
    if flow.is_windowed or drawing.has_several_sources:
        return [flow]
    name = drawing.store_name("batches")
    specification = ss.KeyValue(name, key=ss.utf8, value=ss.int64)
    check = drawing.failing("process_batches")

    class Rows(BatchProcessor):
        rows = specification

        def process(self, batch: pa.RecordBatch) -> None:
            store = self.store(specification)
            check(*batch.column("value").to_pylist())
            store.put("n", (store.get("n") or 0) + batch.num_rows)
            self.context.forward(batch)

    return _if_it_can_be(
        drawing,
        flow,
        f"process_batches({name})",
        lambda: flow.steps.process_batches(
            Rows, key=flow.key_serde, value=flow.value_serde, name=name
        ),
    )


def _if_it_can_be(drawing: Drawing, flow: Flow, said: str, step: Callable[[], Any]) -> list[Flow]:
    """Return what *step* makes, or *flow* where its types have no columns."""
    try:
        steps = step()
    except InvalidTopologyError:
        return [flow]
    drawing.say(flow, said)
    return [Flow(steps, flow.key, flow.value)]


def expressed(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Filter or map by an expression of Arrow's."""
    value = pc.field("value")
    known = {
        "int64": (value + 1, value > 1),
        "float64": (value * 2.0, value > 1.0),
        "utf8": (pc.utf8_upper(value), pc.utf8_length(value) > 0),
    }
    if flow.is_windowed or flow.value not in known:
        return [flow]
    change, keep = known[flow.value]
    if drawing.random.random() < 0.5:
        return _if_it_can_be(drawing, flow, "filter(expression)", lambda: flow.steps.filter(keep))
    return _if_it_can_be(
        drawing,
        flow,
        "map(expression)",
        lambda: flow.steps.map(change, key=flow.key_serde, value=flow.value_serde),
    )


def to_table(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Keep the last record of each key."""
    if flow.is_windowed or _would_cross(drawing, flow):
        return [flow]
    name = drawing.store_name("table")
    value = "int64" if drawing.may_fail and drawing.random.random() < 0.2 else flow.value
    drawing.say(flow, f"to_table({name}, {value})")
    steps = flow.steps.to_table(drawing.key_value(name, flow.key, value))
    return [Flow(steps, flow.key, value, is_table=True)]


def grouped(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Aggregate by key."""
    if flow.is_windowed or _would_cross(drawing, flow):
        return [flow]
    return [aggregate(drawing, flow)]


def grouped_in_windows(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Aggregate by key and window."""
    if flow.is_windowed or _would_cross(drawing, flow):
        return [flow]
    return [windowed_aggregate(drawing, flow)]


def grouped_together(drawing: Drawing, flow: Flow) -> list[Flow]:
    """Aggregate two groups in one."""
    other = partner(drawing, flow, drawing.streams)
    return [flow] if other is None else [cogroup(drawing, flow, other)]


def _would_cross(drawing: Drawing, flow: Flow) -> bool:
    """Return whether a topic would come between, where others go without; note it where not."""
    if not flow.steps._is_rekeyed:  # nothing else says it
        return False
    if drawing.has_several_sources:
        return True
    drawing.is_crossed = True
    return False


STREAM_STEPS: dict[Step, int] = {
    filtered: 2,
    mapped_values: 1,
    mapped: 1,
    flattened: 2,
    rekeyed: 2,
    split: 1,
    written: 1,
    merged: 1,
    processed: 1,
    batches: 1,
    processed_batches: 1,
    expressed: 1,
    joined_with_table: 3,
    joined_with_global_table: 5,
    joined_with_stream: 2,
    joined_as_of: 5,
    to_table: 1,
    grouped: 3,
    grouped_in_windows: 3,
    grouped_together: 2,
}
"""Each step, and how often it is drawn."""
