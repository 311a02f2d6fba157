"""The cases of the family ``task_order``: which record a task takes next."""

from typing import Any

from statestores import TopicPartition
from statestores.processing.runtime import RecordOrder


def run_task_order(case: dict[str, Any]) -> list[str]:
    """Return in words where the order of records is other than the case says."""
    named = [step["buffer"] for step in case["steps"] if "buffer" in step]
    named += [name for step in case["steps"] for name in step.get("lag", {})]
    partitions = {name: TopicPartition(name, 0) for name in named}
    idle_ms = case.get("max_task_idle_ms", 0)
    order: RecordOrder[None] = RecordOrder(partitions.values(), max_task_idle_ms=idle_ms)
    found, wall_ms = [], 0
    for place, step in enumerate(case["steps"]):
        if "buffer" in step:
            order.buffer(partitions[step["buffer"]], [(each, None) for each in step["timestamps"]])
        for name, records in step.get("lag", {}).items():
            order.set_lag(partitions[name], records)
        wall_ms += step.get("advance_wall_clock", 0)
        if "ready" in step and order.is_ready(wall_ms) is not step["ready"]:
            found.append(f"step {place}: ready should be {step['ready']}")
        allowed = [step["next"]] if "next" in step else step.get("next_any")
        if allowed is None:
            continue
        record = order.take()
        if record is None:
            found.append(f"step {place}: there is no record")
            continue
        got = {
            "timestamp": record.stream_time_ms - record.lateness_ms,
            "stream_time": record.stream_time_ms,
            "lateness": record.lateness_ms,
        }
        if record.partition.topic not in allowed:
            found.append(f"step {place}: expected {allowed}, got {record.partition.topic}")
        found += [
            f"step {place}: expected {name} {step[name]}, got {value}"
            for name, value in got.items()
            if name in step and step[name] != value
        ]
    return found
