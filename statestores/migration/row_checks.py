"""Rows of another program, judged before they are stored: as a reader of the store will find them.

The bytes are theirs and stay as they are, so nothing but the serde that was named says what they
mean: a wrong one was found by the first reader. And who looks for a key asks its own partition.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.errors import InvalidArgumentError, SerializationError
from statestores.partitioning import partitioner_by_name
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification


def readable(
    batches: Iterable[pa.RecordBatch], specification: StoreSpecification[Any, Any]
) -> Iterator[pa.RecordBatch]:
    """Yield *batches*, whose keys and values the serdes of *specification* read (MIG-20).

    Raises:
        SerializationError: One does not read what it would be given.
    """
    serdes = [("key", specification.key), ("value", specification.value)]
    for batch in batches:
        for column, serde in serdes:
            if serde is None:  # bytes, which are anything
                continue
            try:
                serde.decode_array(batch.column(column))
            except SerializationError as error:
                _refuse_row(batch, column, serde, specification.name)
                raise SerializationError(
                    f"the serde {serde.name!r} does not read the column {column!r} of the store "
                    f"{specification.name!r}: {error}"
                ) from error
        yield batch


def checked_rows(
    batches: Iterable[pa.RecordBatch],
    specification: StoreSpecification[Any, Any],
    partitions: int,
    partition: int,
    *,
    check_keys: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield *batches* of *partition*, which are readable and, if asked for, belong there.

    Raises:
        SerializationError: A serde does not read a key or value.
        InvalidArgumentError: A key belongs elsewhere.
    """
    rows = readable(batches, specification)
    return _keys_at_home(rows, specification, partitions, partition) if check_keys else rows


def _keys_at_home(
    batches: Iterable[pa.RecordBatch],
    specification: StoreSpecification[Any, Any],
    partitions: int,
    partition: int,
) -> Iterator[pa.RecordBatch]:
    """Yield *batches* of *partition*, whose keys belong there.

    Raises:
        InvalidArgumentError: A key belongs elsewhere.
    """
    partitioner = partitioner_by_name(specification.partitioner)
    for batch in batches:
        homes = partitioner.partition_array(batch.column("key"), partitions)
        astray = pc.index(pc.equal(homes, partition), pa.scalar(False)).as_py()  # noqa: FBT003  # the value sought
        if astray >= 0:
            raise InvalidArgumentError(
                f"the key {batch.column('key')[astray].as_py()!r} is in partition {partition} "
                f"of the store {specification.name!r}, and of {partitions} partitions it belongs "
                f"to {homes[astray].as_py()}: the application has another number of "
                "partitions, or a partitioner of its own; say how many, or import without the "
                "check of keys"
            )
        yield batch


def _refuse_row(batch: pa.RecordBatch, column: str, serde: Serde[Any], store: str) -> None:
    """Refuse the first row of *batch* that *serde* does not read.

    Raises:
        SerializationError: There is one.
    """
    for number in range(batch.num_rows):
        try:
            serde.decode_array(batch.column(column).slice(number, 1))
        except SerializationError as error:
            key = batch.column("key")[number].as_py()
            what = f"the key {key!r}" if column == "key" else f"the value of the key {key!r}"
            raise SerializationError(
                f"{what} cannot be read back from the store {store!r}: {error}; name the {column} "
                "serde that has written it, or none (bytes), and import again"
            ) from error
