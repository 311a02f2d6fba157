"""Tasks of a stateful function, without Spark."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from stateful_plans import QUERY, SCHEMA, placed, plan_of, results_of, run_batch
from stateful_words import STORE, count, state_of

import statestores as ss
from statestores import failpoints
from statestores.changelog import ChangelogReader, FileChangelog
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
    UnsupportedFormatError,
)
from statestores.spark import OpenStores
from statestores.spark.given_root import GivenRoot
from statestores.spark.hash_placement import PLACE_COLUMN, partition_of, places_of
from statestores.spark.stateful_functions.batches import MicroBatches
from statestores.spark.stateful_functions.micro_batch import MicroBatch
from statestores.spark.stateful_functions.output import batches_of_rows, checked_batches
from statestores.spark.stateful_functions.plan import StatefulFunction, add_stores
from statestores.spark.stateful_functions.task import StatefulTask, TaskResult
from statestores.staging.operator_file import read_record
from statestores.staging.staged_rows import StagedFile
from statestores_conformance.many_cases import for_each

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def test_sparks_hash_sends_each_place_to_its_partition() -> None:
    """What Spark's hash() gives for these numbers, taken from Spark, modulo the partitions."""
    hashes = {0: 933211791, 1: -559580957, 2: 1765031574}

    for partitions in (1, 2, 3, 7, 200):
        places = places_of(partitions).tolist()
        assert len(set(places)) == partitions
        for number, hashed in hashes.items():
            if number in places:
                assert places.index(number) == hashed % partitions
    assert places_of(1).tolist() == [0]


_NOON = datetime(2024, 7, 1, 12)  # noqa: DTZ001  # what it is about
_INSTANT = _NOON.replace(tzinfo=timezone(timedelta(hours=-4)))
_IN_UTC = pa.timestamp("us", "UTC")


@for_each(
    ("kind", "right", "wrong", "reason"),
    [
        (_IN_UTC, _INSTANT, _NOON, "instants: say its zone"),
        (pa.timestamp("us"), _NOON, _INSTANT, "has no zone: leave it out"),
        (pa.list_(_IN_UTC), [_INSTANT, None], [_INSTANT, _NOON], "instants: say its zone"),
        (pa.struct({"at": _IN_UTC}), {"at": _INSTANT}, {"at": _NOON}, "instants: say its zone"),
        (pa.map_(_IN_UTC, pa.int64()), [(_INSTANT, 1)], [(_NOON, 1)], "instants: say its zone"),
        (
            pa.map_(pa.string(), pa.timestamp("us")),
            [("a", _NOON), ("b", None)],
            [("a", _INSTANT)],
            "has no zone: leave it out",
        ),
    ],
)
def test_a_row_has_a_zone_where_its_column_has_one(
    kind: pa.DataType, right: object, wrong: object, reason: str
) -> None:
    """A function that emitted noon, in a session of New York, had emitted eight in the morning.

    Arrow took a time without a zone for one in UTC, and an instant for a time on a clock in UTC.
    Batches of the other type were refused since there are such functions.
    """
    schema = pa.schema({"column": kind})
    (batch,) = batches_of_rows([{"column": right}, {"column": None}, {}], schema)

    assert batch.column("column").to_pylist() == [right, None, None]
    with pytest.raises(InvalidTypeError, match=f"in the column 'column', where .* {reason}"):
        list(batches_of_rows([{"column": right}, {"column": wrong}], schema))


def test_rows_of_two_partitions_in_one_task_are_refused() -> None:
    """Should Spark ever shuffle in another way, nothing is computed."""
    mixed = pa.Table.from_batches(placed(["a", "b", "c", "d"])).combine_chunks().to_batches()[0]
    with pytest.raises(InvalidArgumentError, match="rows of 2 store partitions"):
        partition_of(mixed, 2)


def test_attempts_that_nobody_takes_do_no_harm(tmp_path: Path) -> None:
    """Two attempts of each task, one after the other or at once; of each one is published."""
    plan, words = plan_of(tmp_path / "state"), ["a", "b", "c", "a"]
    run_batch(plan, 0, words)

    def attempts(task: StatefulTask) -> list[TaskResult]:
        results_of(task, words)
        inner = plan_of(tmp_path / "state", function=running_beside(task))
        beside = StatefulTask(
            plan=inner, write_id=task.write_id, number=1, end_offsets=task.end_offsets
        )
        return results_of(beside, words)

    def running_beside(task: StatefulTask) -> StatefulFunction:
        def function(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Any:
            results_of(task, words)  # while the stores of this one are open
            return list(count(batches, stores))

        return function

    batch = MicroBatch(query=QUERY, number=1, is_in_sequence=True)
    MicroBatches(plan).run(batch, attempts)
    run_batch(plan, 2, words)

    assert state_of(plan.root) == {"a": 6, "b": 3, "c": 3}
    assert not list((tmp_path / "local").rglob("1/engine"))


def test_a_micro_batch_that_comes_again_is_not_computed(tmp_path: Path) -> None:
    """Its record has what it emitted."""
    plan = plan_of(tmp_path / "state")
    run_batch(plan, 0, ["a"])
    before = read_record(plan.directory)
    run_batch(plan, 0, ["b"])

    assert read_record(plan.directory) == before
    assert state_of(plan.root) == {"a": 1}
    for number in (-1, 2):
        with pytest.raises(StoreMismatchError, match="older"):
            run_batch(plan, number, ["b"])


def test_what_a_dead_driver_has_staged_is_removed(tmp_path: Path) -> None:
    """One that died when all was published left its files for ever."""
    plan = plan_of(tmp_path / "state")

    def fail() -> None:
        raise OSError("the driver dies")

    failpoints.arm("publish.finished", fail)
    try:
        with pytest.raises(OSError, match="the driver dies"):
            run_batch(plan, 0, ["a"])
    finally:
        failpoints.disarm()
    assert [path.name for path in plan.root.glob("counts/.writes/*/")] == [f"{QUERY}-0"]
    run_batch(plan, 0, ["a"])

    assert list(plan.root.glob("counts/.writes/*/")) == []
    assert state_of(plan.root) == {"a": 1}


def test_two_functions_share_a_store_if_they_have_names(tmp_path: Path) -> None:
    """The second one was given what the first one had emitted."""
    first = plan_of(tmp_path / "state")
    run_batch(first, 0, ["a"])
    other = replace(first, schema=pa.schema([("count", pa.int64()), ("word", pa.string())]))
    with pytest.raises(StoreMismatchError, match="names of their own"):
        run_batch(other, 0, ["a"])
    run_batch(replace(other, name="another"), 0, ["a"])

    assert state_of(first.root) == {"a": 2}


def test_a_record_that_is_damaged_or_unknown_is_refused(tmp_path: Path) -> None:
    """Nothing is guessed."""
    plan = plan_of(tmp_path / "state")
    run_batch(plan, 0, ["a"])
    path = plan.directory / "batch.json"
    text = path.read_text()

    path.write_text(text.replace('"format": 1', '"format": 9'))
    with pytest.raises(UnsupportedFormatError, match="upgrade"):
        run_batch(plan, 1, ["a"])
    path.write_text(text.replace('"number"', '"numbr"'))
    with pytest.raises(StoreCorruptedError, match="malformed"):
        run_batch(plan, 1, ["a"])


def _commit(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> None:
    stores["counts"].put("a", 1)
    stores["counts"].commit({})


def _stray(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> None:
    stores["counts"].put_many([str(number) for number in range(9)], [1] * 9)


def _close(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> None:
    stores["counts"].close()


def _truncate(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> None:
    stores["counts"].truncate()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_commit, "must not commit its stores"),
        (_stray, "of another partition than the rows"),
        (_close, "has closed or truncated the store 'counts'"),
        (_truncate, "must not truncate its stores"),
    ],
)
def test_what_a_function_must_not_do(
    tmp_path: Path, function: StatefulFunction, reason: str
) -> None:
    """It is told so, and the next attempt finds the state as it was."""
    plan = plan_of(tmp_path / "state")
    run_batch(plan, 0, ["a", "b"])
    with pytest.raises(InvalidArgumentError, match=reason):
        run_batch(plan_of(tmp_path / "state", function=function), 1, ["a", "b"])
    run_batch(plan, 1, ["a"])

    assert state_of(plan.root) == {"a": 2, "b": 1}


def test_a_store_that_the_function_does_not_have(tmp_path: Path) -> None:
    """The message lists those that it has."""
    with pytest.raises(KeyError, match="no store 'count'; stores= names: counts"):
        OpenStores({"counts": None}, 0, 0)["count"]


@for_each(
    ("emitted", "error", "reason"),
    [
        ([pa.table({"word": ["a"]})], InvalidArgumentError, "'count' 0 times"),
        ([pa.table({"word": ["a"], "cuont": [1]})], InvalidArgumentError, "has .* 'cuont', which"),
        (
            [pa.table({"word": ["a"], "count": ["1"]})],
            InvalidTypeError,
            "'count' as string, and output_schema declares bigint, which is int64",
        ),
        ([{"word": "a"}], InvalidTypeError, "must emit pyarrow.RecordBatch or pyarrow.Table"),
        (3, InvalidTypeError, "must return batches, tables or None"),
    ],
)
def test_what_is_emitted_has_to_be_what_was_declared(
    emitted: Any, error: type[Exception], reason: str
) -> None:
    """With the column and both types."""
    with pytest.raises(error, match=reason):
        list(checked_batches(emitted, SCHEMA))


def test_layouts_of_one_type_are_one_type() -> None:
    """And the order of columns does not matter; NOT NULL is held."""
    table = pa.table(
        {"count": pa.array([1], pa.int64()), "word": pa.array(["a"], pa.large_string())}
    )
    (batch,) = checked_batches(table, SCHEMA)
    assert batch.schema == SCHEMA
    coded = table.set_column(1, "word", table["word"].cast(pa.string()).dictionary_encode())
    assert list(checked_batches([coded], SCHEMA)) == [batch]
    assert list(checked_batches(None, SCHEMA)) == []
    strict = pa.schema([pa.field("word", pa.string(), nullable=False)])
    with pytest.raises(InvalidArgumentError, match="a null in the column 'word'"):
        list(checked_batches(pa.table({"word": pa.array([None], pa.string())}), strict))


def test_rows_have_to_fit_as_well() -> None:
    """Dictionaries with known columns and values of their types."""
    assert [batch.num_rows for batch in batches_of_rows([{}] * 10_001, SCHEMA)] == [10_000, 1]
    for emitted, error, reason in (
        ([{"wrod": "a"}], InvalidArgumentError, "'wrod', which output_schema does not have"),
        ([{"count": "many"}], InvalidTypeError, "column 'count' that is no int64"),
        ([("a", 1)], InvalidTypeError, "must emit dictionaries"),
        (3, InvalidTypeError, "must return dictionaries or None"),
    ):
        with pytest.raises(error, match=reason):
            list(batches_of_rows(emitted, SCHEMA))


def test_what_expires_is_deleted_behind_keys_that_live(tmp_path: Path) -> None:
    """The sweep went through the same living keys in each micro-batch and never came further."""
    store = ss.TimestampedKeyValue("counts", key=ss.utf8, ttl_ms=120)
    living, refreshed, passing = 300, 30, 2

    def put(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> None:
        words = pa.Table.from_batches(batches)["word"].to_pylist()
        stores["counts"].put_many(words, [b"" for _ in words], [stores.batch * 10] * len(words))

    place = GivenRoot(tmp_path / "state")
    add_stores(place, [store], 1)
    plan = replace(
        plan_of(tmp_path / "other", function=put),
        place=place,
        specifications=(store,),
        partitions=1,
    )
    for number in range(60):
        words = [f"a{(number * refreshed + each) % living}" for each in range(refreshed)]
        words += [f"z{number}-{each}" for each in range(passing)]
        batch = MicroBatch(query=QUERY, number=number, is_in_sequence=True)
        rows = pa.record_batch({"word": words, PLACE_COLUMN: [int(places_of(1)[0])] * len(words)})

        def compute(task: StatefulTask, rows: pa.RecordBatch = rows) -> list[TaskResult]:
            (result,) = task.run([rows])
            return [TaskResult.from_json(result.column(0)[0].as_py())]

        MicroBatches(plan).run(batch, compute)

    with ChangelogReader.open(plan.root / "counts" / "0" / "changelog") as log:
        deleted = sum(frame.batch.column("value").null_count for frame in log.read())
    assert deleted > 60 * passing / 3


def test_a_micro_batch_waits_for_whoever_has_a_store(tmp_path: Path) -> None:
    """A query ended when an owner, or a standby's promotion, had a store for a moment.

    It waits now, as a write does, with none of the other stores' locks, and for no longer than the
    query says. What it has computed is committed if nobody has written meanwhile.
    """
    plan, words = plan_of(tmp_path / "state"), ["a", "b"]
    run_batch(plan, 0, words)
    held = ExitStack()
    waited: list[float] = []

    def compute(task: StatefulTask) -> list[TaskResult]:
        results = results_of(task, words)
        log = plan.root / "counts" / "1" / "changelog"
        held.enter_context(FileChangelog.open(log, STORE.kind))
        return results

    def run(number: int, timeout_ms: int) -> None:
        patient = replace(plan, commit_timeout_ms=timeout_ms)
        batch = MicroBatch(query=QUERY, number=number, is_in_sequence=True)
        MicroBatches(patient).run(batch, compute)

    with (
        held,
        pytest.raises(StoreLockedError, match=r"micro-batch of 'counts' has waited for 1 ms"),
    ):
        run(1, 1)
    assert state_of(plan.root) == {"a": 1, "b": 1}

    sleep, own = time.sleep, threading.get_ident()

    def pause(seconds: float) -> None:
        if threading.get_ident() != own:  # a thread of another test's session
            sleep(seconds)
            return
        waited.append(seconds)
        held.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", pause)
        run(1, 300_000)

    assert len(waited) == 1
    assert state_of(plan.root) == {"a": 2, "b": 2}


def test_results_travel_as_text() -> None:
    """From tasks to the driver."""
    file = StagedFile(name="x", partition=1, rows=2, bytes=3, crc32c=4)
    result = TaskResult(stores={"a": (file,), "b": ()}, outputs=(file,), dropped={"late": 1})

    assert TaskResult.from_json(result.to_json()) == result
