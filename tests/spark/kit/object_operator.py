"""A stateful operator of two stores in an object store, its tasks run by this process."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores import failpoints
from statestores.changelog import change_schema
from statestores.partitioning import murmur2_partitioner
from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import PartitionReader
from statestores.spark import OpenStores
from statestores.spark.given_root import GivenRoot
from statestores.spark.hash_placement import Placement
from statestores.spark.local_copy import CopyOptions
from statestores.spark.stateful_functions.micro_batch import Compute, MicroBatch, OperatorBatches
from statestores.spark.stateful_functions.operators import operator_batches
from statestores.spark.stateful_functions.output import emitted_rows
from statestores.spark.stateful_functions.plan import StatefulFunction, StatefulPlan, add_stores
from statestores.spark.stateful_functions.task import StatefulTask, TaskResult
from statestores.spi.specification import StoreSpecification
from statestores.staging.object_write import ObjectWrite
from statestores.staging.staged_objects import stage_objects

COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
LAST = ss.KeyValue("last", key=ss.utf8, value=ss.int64)
WORDS = list("abcdefgh")
QUERY = "5f0c1f5e-0000-0000-0000-000000000000"


class DriverDiesError(Exception):
    """Nothing of ours catches it."""


def _count(batches: Iterator[pa.RecordBatch], stores: OpenStores) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        words = batch["word"].to_pylist()
        for word in words:
            stores["counts"].put(word, (stores["counts"].get(word) or 0) + 1)
            stores["last"].put(word, stores.batch)
        yield pa.record_batch({"word": words, "luck": [random.random() for _ in words]})


class ObjectOperator:
    """The operator, and lives of its driver."""

    def __init__(
        self,
        root: GivenRoot,
        local: Path,
        partitions: int = 2,
        computes: tuple[tuple[StoreSpecification[Any, Any], ...], StatefulFunction] | None = None,
    ) -> None:
        """Keep the state in *root*, in so many *partitions*, with copies in the directory *local*.

        As a query does that is started: another one of these is another driver. What it *computes*
        are words, by default how often each has come, in `COUNTS`, and when last, in `LAST`.
        """
        stores, function = computes or ((COUNTS, LAST), _count)
        self.root = root
        self.computed = 0
        self.plan = StatefulPlan(
            place=root,
            name="words",
            specifications=stores,
            partitions=partitions,
            key="word",
            function=function,
            by="batches",
            schema=pa.schema([("word", pa.string()), ("luck", pa.float64())]),
            copies=CopyOptions(directory=str(local), backend="sqlite"),
            commit_timeout_ms=0,
        )
        add_stores(root, self.plan.specifications, partitions)

    def run(
        self,
        number: int,
        *,
        query: str = QUERY,
        before_commit: Callable[[], object] = lambda: None,
        compute: Compute | None = None,
        life: OperatorBatches | None = None,
    ) -> list[dict[str, Any]]:
        """Run a micro-batch, by default in a life of its own; return what it has emitted."""

        def tasks(task: StatefulTask) -> list[TaskResult]:
            self.computed += 1
            found = results_of(task)
            before_commit()
            return found

        batch = MicroBatch(query=query, number=number, is_in_sequence=True)
        done = (life or operator_batches(self.plan)).run(batch, compute or tasks)
        place = self.plan.outputs(done.write_id)
        return [
            row
            for file in done.outputs
            for batch in emitted_rows(place, file)
            for row in batch.to_pylist()
        ]

    def content(self, store: ss.KeyValue[Any, Any]) -> dict[str, int]:
        """Return what is in *store*, read without a copy."""
        state = self.root.open()
        return {
            row["key"]: row["value"]
            for number in range(state.store(store.name).partitions)
            for batch in PartitionReader(place_of(state, store.name, number), store).rows()
            for row in batch.to_pylist()
        }

    def check(self, batches: int) -> None:
        """Accept stores that have so many micro-batches."""
        assert self.content(COUNTS) == dict.fromkeys(WORDS, batches)
        assert self.content(LAST) == dict.fromkeys(WORDS, batches - 1)

    def write(self, store: ss.KeyValue[Any, Any], key: str) -> None:
        """Write to *store*, as another program."""
        rows = [{"key": key.encode(), "value": ss.int64.encode(7)}]
        batch = pa.RecordBatch.from_pylist(rows, schema=change_schema(store.kind))
        log = self.root.open().object_log(store.name)
        staged = stage_objects(log, store, [batch])
        assert ObjectWrite(log=log, specification=store, staged=[staged]).commit()

    def objects(self, prefix: str) -> list[str]:
        """Return the names of what lies below *prefix*."""
        return [each.name for each in self.root.objects.list(prefix)]


def results_of(task: StatefulTask) -> list[TaskResult]:
    """Run the tasks, each of which gets the words of its partition."""
    partitions = task.plan.partitions
    placement = Placement(
        specification=COUNTS, partitions=partitions, key="word", keeps_nulls=False
    )
    (batch,) = placement.rows([pa.record_batch({"word": WORDS})])
    chosen = [murmur2_partitioner.partition(word.encode(), partitions) for word in WORDS]
    return [
        TaskResult.from_json(row["result"])
        for number in range(partitions)
        for result in task.run([batch.filter(pa.array([each == number for each in chosen]))])
        for row in result.to_pylist()
    ]


@contextmanager
def dying(step: str) -> Iterator[None]:
    """Have whoever comes to *step* die in the block."""

    def die() -> None:
        raise DriverDiesError

    failpoints.arm(step, die)
    try:
        with pytest.raises(DriverDiesError):
            yield
    finally:
        failpoints.disarm()
