"""The state stores of a streaming query's checkpoint, as Spark's own sources tell of them."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from statestores.errors import InvalidArgumentError, StorageError, StoreNotFoundError

_LISTED = 20
_JOIN = "symmetricHashJoin"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStateStore:
    """One state store of one operator of a query."""

    operator_id: int
    """The number of the operator, from 0."""

    operator_name: str
    """What it does, as ``stateStoreSave``, which is an aggregation, or ``dedupe``."""

    store_name: str
    """The name of the store among those of the operator; ``default`` when there is one only."""

    partitions: int
    """How many partitions it has."""

    first_batch: int
    """The first batch of which Spark knows."""

    last_batch: int
    """The last one."""

    variables: tuple[str, ...]
    """The state variables of a ``transformWithState``; none of any other operator."""

    def has_rows_of(self, join_side: str) -> bool:
        """Return whether a stream-stream join keeps the rows of *join_side* in it.

        The other store of a side counts them. A join whose state has Spark's third format has one
        store for everything.
        """
        names = {f"{join_side}-keyWithIndexToValue", "default"}
        return self.operator_name == _JOIN and self.store_name in names

    def __str__(self) -> str:
        """Return how messages name it, by the options that choose it."""
        return (
            f"--operator {self.operator_id} --spark-store {self.store_name} ({self.operator_name})"
        )


def list_state_stores(spark: SparkSession, checkpoint: Path) -> list[SparkStateStore]:
    """Return the state stores of the query whose checkpoint is at *checkpoint*.

    Raises:
        StoreNotFoundError: There is no checkpoint, or one without state.
        StorageError: Spark cannot read it.
    """
    if not (checkpoint / "commits").is_dir():
        raise StoreNotFoundError(
            f"there is no checkpoint of a streaming query at {str(checkpoint)!r}: it has no "
            "directory commits; give the query's checkpointLocation"
        )
    if not (checkpoint / "state").is_dir():
        raise StoreNotFoundError(
            f"the query of the checkpoint {str(checkpoint)!r} keeps no state: there is no "
            "directory state"
        )
    with reporting_spark(f"read the metadata of {str(checkpoint)!r}"):
        rows = spark.read.format("state-metadata").load(str(checkpoint)).collect()
    stores = [
        SparkStateStore(
            operator_id=row.operatorId,
            operator_name=row.operatorName,
            store_name=row.stateStoreName,
            partitions=row.numPartitions,
            first_batch=row.minBatchId,
            last_batch=row.maxBatchId,
            variables=_variables(row.operatorProperties),
        )
        for row in rows
    ]
    if not stores:
        raise StoreNotFoundError(
            f"the checkpoint {str(checkpoint)!r} does not say which state stores it has; it was "
            "written by a Spark older than 3.5: let a newer one run the query once"
        )
    return sorted(stores, key=lambda store: (store.operator_id, store.store_name))


def choose_state_store(
    stores: Sequence[SparkStateStore],
    operator_id: int | None,
    store_name: str | None,
    join_side: str | None = None,
) -> SparkStateStore:
    """Return the one of *stores* that is meant; of a *join_side* the one that has its rows.

    Raises:
        StoreNotFoundError: There is no such store.
        InvalidArgumentError: There are several.
    """
    found = [
        store
        for store in stores
        if operator_id in (None, store.operator_id)
        and store_name in (None, store.store_name)
        and (join_side is None or store.has_rows_of(join_side))
    ]
    if len(found) == 1:
        return found[0]
    listed = "; ".join(map(str, (found or stores)[:_LISTED]))
    if not found:
        wanted = "such state store" if join_side is None else f"store of a join's {join_side} side"
        raise StoreNotFoundError(f"the checkpoint has no {wanted}; it has: {listed}")
    raise InvalidArgumentError(f"the checkpoint has several state stores, choose one: {listed}")


def _variables(properties: str | None) -> tuple[str, ...]:
    """Return the state variables that the *properties* of an operator name.

    >>> _variables('{"stateVariables": [{"stateName": "count"}]}'), _variables(None)
    (('count',), ())
    """
    described = json.loads(properties) if properties else {}
    return tuple(each["stateName"] for each in described.get("stateVariables", ()))


@contextmanager
def reporting_spark(action: str) -> Iterator[None]:
    """Turn what Spark raises inside the block into `StorageError`, with its first sentence."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise StorageError(f"Spark cannot {action}: {_telling(lines)}") from error


def _telling(lines: Sequence[str]) -> str:
    """Return the line that says what went wrong: in a worker's traceback, the last but its stack.

    >>> _telling(["Traceback (most recent call last):", "File x", "ValueError: no", "at org.x.Y"])
    'ValueError: no'
    >>> _telling(["An error occurred while calling o1.collect.", ": org.x.Y: no", "at org.x.Y"])
    'org.x.Y: no'
    """
    if not lines:
        return "it does not say why"
    if lines[0].startswith("An error occurred while calling "):  # which says nothing
        lines = [line.removeprefix(": ") for line in lines[1:]] or lines
    for start, line in enumerate(lines):
        if line.endswith("Traceback (most recent call last):"):
            trace = [each for each in lines[start + 1 :] if not each.startswith(("at ", "..."))]
            errors = [each for each in trace if "Error: " in each.partition('"')[0]]
            return errors[0] if errors else line
    return lines[0]
