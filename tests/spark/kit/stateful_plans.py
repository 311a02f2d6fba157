"""Micro-batches of a word count in two partitions, computed without Spark."""

from pathlib import Path

import pyarrow as pa
from stateful_words import STORE, count

from statestores.partitioning import murmur2_partitioner
from statestores.spark.given_root import GivenRoot
from statestores.spark.hash_placement import Placement
from statestores.spark.local_copy import CopyOptions
from statestores.spark.stateful_functions.batches import MicroBatches
from statestores.spark.stateful_functions.micro_batch import MicroBatch
from statestores.spark.stateful_functions.plan import StatefulFunction, StatefulPlan, add_stores
from statestores.spark.stateful_functions.task import StatefulTask, TaskResult

SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64())])
QUERY = "5f0c1f5e-0000-0000-0000-000000000000"


def plan_of(
    root: Path, function: StatefulFunction = count, backend: str = "sqlite"
) -> StatefulPlan:
    """Return the word count in two partitions."""
    place = GivenRoot(root)
    add_stores(place, [STORE], 2)
    return StatefulPlan(
        place=place,
        name="counts",
        specifications=(STORE,),
        partitions=2,
        key="word",
        function=function,
        by="batches",
        schema=SCHEMA,
        copies=CopyOptions(directory=str(root.with_name("local")), backend=backend),
    )


def placed(words: list[str]) -> list[pa.RecordBatch]:
    """Return the rows of each partition, as the shuffle gives them to its task."""
    placement = Placement(specification=STORE, partitions=2, key="word", keeps_nulls=False)
    (batch,) = placement.rows([pa.record_batch({"word": words})])
    chosen = [murmur2_partitioner.partition(word.encode(), 2) for word in words]
    return [batch.filter(pa.array([each == number for each in chosen])) for number in (0, 1)]


def results_of(task: StatefulTask, words: list[str]) -> list[TaskResult]:
    """Run the tasks of all partitions."""
    return [
        TaskResult.from_json(row["result"])
        for rows in placed(words)
        for batch in task.run([rows])
        for row in batch.to_pylist()
    ]


def run_batch(plan: StatefulPlan, number: int, words: list[str]) -> None:
    """Compute and commit a micro-batch."""
    batch = MicroBatch(query=QUERY, number=number, is_in_sequence=True)
    MicroBatches(plan).run(batch, lambda task: results_of(task, words))
