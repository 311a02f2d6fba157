"""Sending each row to the task of its store partition.

Spark places rows by its own hash of a column, and a store by its partitioner. So the rows get a
column with a number for each store partition, chosen so that Spark's hash of it is that partition:
then the shuffle gives every task the rows of exactly one partition, and every partition a task.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statestores.errors import InvalidArgumentError
from statestores.partitioning import partitioner_by_name
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spark.map_batches import BatchFunction, map_batches
from statestores.spi.specification import StoreSpecification

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE_COLUMN = "__statestores_place"
"""The column by which rows are shuffled. Nobody else sees it."""

_SEED = 42
_SEARCHED = 1 << 16

_Hashes = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where rows belong. Made to be sent to tasks."""

    specification: StoreSpecification[Any, Any]
    """The store whose keys are in the column, and whose partitioner places them."""

    partitions: int
    """How many partitions it has."""

    key: str
    """The column of keys, of the type of the store's key serde."""

    keeps_nulls: bool
    """Whether a row without a key goes to the first partition, instead of failing the task."""

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield *batches* with their places.

        Raises:
            InvalidArgumentError: A key is null, and that is not allowed.
            SerializationError: A key is not of the serde's type.
        """
        encode = serde_or_raw(self.specification.key).encode_array
        partitioner = partitioner_by_name(self.specification.partitioner)
        for batch in batches:
            keys = encode(batch.column(self.key))
            if keys.null_count:
                if not self.keeps_nulls:
                    raise InvalidArgumentError(
                        f"the key column {self.key!r} has a null, which belongs to no partition; "
                        "filter such rows out, or give them a key of their own"
                    )
                keys = keys.fill_null(b"")
            chosen = partitioner.partition_array(keys, self.partitions)
            yield with_places(batch, chosen, self.partitions)

    def shuffled(self, frame: "DataFrame") -> "DataFrame":
        """Return the rows of *frame*, those of a store partition in one task, with their places."""
        return shuffled(frame, self.rows, self.partitions)


def shuffled(frame: "DataFrame", placed: BatchFunction, partitions: int) -> "DataFrame":
    """Return the rows of *frame*, those of a store partition in one task, with their places.

    *placed* gives the places: to batches a column that `with_places` has made.
    """
    from pyspark.sql.types import IntegerType, StructType  # noqa: PLC0415  # see the package

    schema = StructType([*frame.schema.fields]).add(PLACE_COLUMN, IntegerType())
    return map_batches(frame, placed, schema).repartition(partitions, PLACE_COLUMN)


def with_places(batch: pa.RecordBatch, chosen: pa.Array, partitions: int) -> pa.RecordBatch:
    """Return *batch* with the places of the store partitions *chosen*."""
    return batch.append_column(PLACE_COLUMN, pa.array(places_of(partitions)).take(chosen))


def partition_of(batch: pa.RecordBatch, partitions: int) -> int:
    """Return the store partition of the rows of *batch*, which has some, and their places.

    Raises:
        InvalidArgumentError: They are of several: Spark has not shuffled them as it should.
    """
    found = batch.column(PLACE_COLUMN).unique()
    if len(found) > 1:
        raise InvalidArgumentError(
            f"one task has got rows of {len(found)} store partitions; does an extension of Spark "
            "change how repartition() works?"
        )
    return int(np.flatnonzero(places_of(partitions) == found[0].as_py())[0])


@lru_cache(maxsize=16)
def places_of(partitions: int) -> npt.NDArray[np.int32]:
    """Return for each of *partitions* the least number that Spark's hash sends there."""
    places = np.full(partitions, -1, np.int32)
    start = 0
    while (places < 0).any():
        numbers = np.arange(start, start + _SEARCHED, dtype=np.uint32)
        found, first = np.unique(_hashed(numbers).view(np.int32) % partitions, return_index=True)
        new = places[found] < 0
        places[found[new]] = numbers[first[new]]
        start += _SEARCHED
    return places


def _hashed(numbers: _Hashes) -> _Hashes:
    """Return what Spark's ``hash()`` gives for 32-bit *numbers*: murmur3 with the seed 42."""
    mixed = _rotated(numbers * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    hashed = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    hashed ^= np.uint32(4)  # the length in bytes
    hashed ^= hashed >> np.uint32(16)
    hashed *= np.uint32(0x85EBCA6B)
    hashed ^= hashed >> np.uint32(13)
    hashed *= np.uint32(0xC2B2AE35)
    return hashed ^ (hashed >> np.uint32(16))


def _rotated(numbers: _Hashes, bits: int) -> _Hashes:
    return (numbers << np.uint32(bits)) | (numbers >> np.uint32(32 - bits))
