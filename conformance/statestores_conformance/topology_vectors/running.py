"""Runs a case, and says how it differs from what it should be."""

import json as plain_json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from statestores.errors import InvalidArgumentError, StateStoreError
from statestores.processing import Record, Topology, Windowed
from statestores_conformance.topology_vectors.case_driver import CaseDriver, InMemoryDriver
from statestores_conformance.topology_vectors.local_driver import LocalDriver
from statestores_conformance.topology_vectors.step_fields import unknown_fields
from statestores_conformance.topology_vectors.steps import Steps
from statestores_conformance.topology_vectors.task_order import run_task_order

if TYPE_CHECKING:
    from statestores_conformance.topology_vectors.kafka_driver import KafkaDriver

Case = dict[str, Any]
Row = tuple[Any, Any, int]
MakeDriver = Callable[[Topology, Path], AbstractContextManager[CaseDriver]]
"""Makes what runs the topology of a case, in a directory."""
Runner = Literal["driver", "local", "kafka"] | MakeDriver

ALL = 0
"""The batch size that takes all input at once."""


@dataclass
class Outcome:
    """What a topology has done with a case."""

    output: list[tuple[int, str, Row]] = field(default_factory=list)
    """What came out: the last input before it, the topic, and key, value and time."""

    failed_at: int | None = None
    """The input at which it failed."""

    error: str = ""
    """What it said then."""


def overrides() -> dict[str, Case]:
    """Return the cases of which we decide otherwise than Kafka, each with the reason."""
    text = files(__package__).joinpath("overrides.json").read_text("utf-8")
    found: dict[str, Case] = plain_json.loads(text)
    return found


def load(path: Path) -> Case:
    """Return the case of a file, with what we have decided otherwise."""
    case: Case = plain_json.loads(path.read_text("utf-8"))
    case.setdefault("name", path.stem)
    ours = overrides().get(path.stem)
    if ours is not None:
        case["expected"] = {**case["expected"], **ours["expected"]}
    return case


def differences(
    case: Case,
    *,
    backend: str | None = None,
    batch: int = 1,
    directory: Path | None = None,
    runner: Runner = "driver",
    bootstrap_servers: str = "",
    least_column_rows: int | None = None,
    least_run_rows: int | None = None,
    cache_max_bytes: int = 0,
) -> list[str]:
    """Return in words what is other than expected when *case* is run; nothing when all is right.

    With the *runner* ``"local"`` it is run by the local runner, on durable topics, in *directory*
    or one that is removed; with ``"kafka"`` on the cluster at *bootstrap_servers*; or by another
    one, which a function makes. In the test driver, batches are processed as columns from
    *least_column_rows* records on, and smaller ones as runs from *least_run_rows* on, of which
    every update has to come out. There and in the local runner, updates wait in *cache_max_bytes*
    for a batch's end. Without a *backend*, stores are in memory, and on Kafka in SQLite.
    """
    if "steps" in case:
        return run_task_order(case)
    prefix = f"{token_hex(4)}-" if runner == "kafka" else ""
    steps = Steps(case["name"], case["topology"], prefix)
    with ExitStack() as stack:
        driver: CaseDriver
        if runner == "driver":
            opened = steps.topology.test(
                backend=backend or "memory", directory=directory, cache_max_bytes=cache_max_bytes
            )
            driver = InMemoryDriver(stack.enter_context(opened), least_column_rows, least_run_rows)
        else:
            place = directory or Path(stack.enter_context(TemporaryDirectory()))
            if callable(runner):
                driver = stack.enter_context(runner(steps.topology, place))
            elif runner == "local":
                made = LocalDriver(
                    steps.topology, place, backend or "memory", cache_max_bytes=cache_max_bytes
                )
                driver = stack.enter_context(made)
            else:
                driver = stack.enter_context(
                    kafka_driver(steps.topology, place, backend, bootstrap_servers, prefix)
                )
        outcome = _run(case, driver, batch)
        has_all = batch == 1 or (least_run_rows is not None and least_column_rows is None)
        found = [
            *_judged_output(case, outcome, batch, has_all=has_all),
            *_judged_failure(case, outcome, batch),
        ]
        if outcome.failed_at is None:
            found += _judged_rest(case, steps, driver)
        return [*unknown_fields(case["topology"]), *found] if found else []


def kafka_driver(
    topology: Topology, directory: Path, backend: str | None, bootstrap_servers: str, prefix: str
) -> "KafkaDriver":
    """Return a driver on the cluster at *bootstrap_servers*, which needs the extra ``kafka``."""
    from statestores_conformance.topology_vectors.kafka_driver import (  # noqa: PLC0415  # an extra
        KafkaDriver,
    )

    return KafkaDriver(topology, directory, backend or "sqlite", bootstrap_servers, prefix)


def _run(case: Case, driver: CaseDriver, batch: int) -> Outcome:
    outcome = Outcome()
    sinks = sorted({step["topic"] for step in case["topology"] if step["op"] == "to"})
    inputs = case["input"]
    size = len(inputs) + 1 if batch == ALL else batch
    driver.to_batches(size)
    for place, given in enumerate(inputs):
        try:
            if "advance_wall_clock" in given:
                driver.settle()
                _collect(driver, sinks, place - 1, outcome)
                driver.advance_wall_clock(given["advance_wall_clock"])
                _collect(driver, sinks, place, outcome)
                continue
            driver.pipe(given["topic"], Record(given["key"], given["value"], given["timestamp"]))
            if (place + 1) % size == 0 or place + 1 == len(inputs):
                _collect(driver, sinks, place, outcome)
        except StateStoreError as error:
            outcome.failed_at, outcome.error = place, str(error)
            if batch != 1:
                _collect(driver, sinks, place, outcome)
            break
    return outcome


def _collect(driver: CaseDriver, sinks: list[str], after: int, outcome: Outcome) -> None:
    for topic in sinks:
        for record in driver.read_all(topic):
            outcome.output.append((after, topic, _row(record)))


def _row(record: Record[Any, Any]) -> Row:
    return _plain_key(record.key), record.value, record.time_ms


def _plain_key(key: Any) -> Any:
    if isinstance(key, Windowed):
        return {"key": key.key, "start": key.start_ms, "end": key.end_ms}
    return key


def _expected_output(case: Case) -> list[tuple[int, str, Row]]:
    return [
        (each["after"], each["topic"], (each["key"], each["value"], each["timestamp"]))
        for each in case["expected"].get("output", [])
    ]


def _judged_output(case: Case, outcome: Outcome, batch: int, *, has_all: bool) -> list[str]:
    wanted = _expected_output(case)
    found = []
    for topic in sorted({topic for _, topic, _ in [*wanted, *outcome.output]}):
        expected = [(after, row) for after, each, row in wanted if each == topic]
        actual = [(after, row) for after, each, row in outcome.output if each == topic]
        if batch == 1:
            if actual != expected:
                found.append(f"{topic}: expected {expected}, got {actual}")
            continue
        # A batch is a run with a cache: the last row of each key has to come out of it, others may.
        # One that fails is not committed, and what came out of it need not be there (PRC-53).
        rows, allowed = [row for _, row in actual], [row for _, row in expected]
        if has_all and rows != allowed:
            found.append(f"{topic}: of a run, {rows} are not all of {allowed}")
        elif not _is_subsequence(rows, allowed):
            found.append(f"{topic}: {rows} is no part of {allowed}")
        elif outcome.failed_at is None and _last_of_each(rows) != _last_of_each(allowed):
            found.append(f"{topic}: the last of each key in {rows} is not that of {allowed}")
    return found


def _is_subsequence(rows: list[Row], allowed: list[Row]) -> bool:
    remaining = iter(allowed)
    return all(any(row == each for each in remaining) for row in rows)


def _last_of_each(rows: list[Row]) -> dict[str, Row]:
    return {plain_json.dumps(row[0], sort_keys=True): row for row in rows}


def _judged_failure(case: Case, outcome: Outcome, batch: int) -> list[str]:
    wanted = case["expected"].get("fails_at")
    if wanted is None and outcome.failed_at is not None:
        return [f"it failed at input {outcome.failed_at}: {outcome.error}"]
    if wanted is not None and outcome.failed_at is None:
        return [f"it should fail at input {wanted}, and did not"]
    if wanted is not None and batch == 1 and outcome.failed_at != wanted:
        return [f"it failed at input {outcome.failed_at}, not {wanted}"]
    return []


def _judged_rest(case: Case, steps: Steps, driver: CaseDriver) -> list[str]:
    expected, found = case["expected"], []
    for name, kind in case.get("stores", {}).items():
        rows, wanted = _dump(driver, steps, name, kind), expected["stores"][name]
        if _counted(rows) != _counted(wanted):
            found.append(f"store {name}: expected {wanted}, got {rows}")
    for name, key, time_ms, wanted in expected.get("as_of", []):
        version = driver.store(name).get(key, time_ms)
        got = None if version is None else list(version)
        if wanted is not None and got is not None and wanted[2] is None:
            got[2] = None  # Kafka says the end only where it knows it
        if got != wanted:
            found.append(f"{name} of {key!r} as of {time_ms}: expected {wanted}, got {got}")
    if "dropped" in expected and driver.dropped_total != expected["dropped"]:
        found.append(f"expected {expected['dropped']} dropped, got {driver.dropped}")
    return found


def _counted(rows: list[Any]) -> Counter[str]:
    return Counter(plain_json.dumps(row, sort_keys=True) for row in rows)


def _dump(driver: CaseDriver, steps: Steps, name: str, kind: str) -> list[Any]:
    """Return the rows of a store in the form of the cases."""
    if kind not in ("key_value", "timestamped", "window", "session"):
        raise InvalidArgumentError(
            f"a case lists the store {name!r} as {kind!r}; known are key_value, timestamped, "
            "window and session"
        )
    store = driver.store(name, stamped=True)
    if kind == "key_value":
        return [[key, value] for key, value in driver.store(name).range()]
    if kind == "timestamped":
        return [[key, value, time_ms] for key, (value, time_ms) in store.range()]
    step = next(each for id_, each in steps.steps.items() if each.get("store", id_) == name)
    retention_ms = steps.retention_ms(step)
    if kind == "window":
        windows = list(store.fetch_all())
        horizon = max((each.start_ms for each in windows), default=0) - retention_ms
        return [
            [each.key, each.start_ms, each.value.value, each.value.timestamp_ms]
            for each in windows
            if each.start_ms > horizon
        ]
    sessions = list(store.find_all_sessions())
    horizon = max((each.end_ms for each in sessions), default=0) - retention_ms
    return [list(each) for each in sessions if each.end_ms > horizon]
