"""Rows of another program, read as a reader of the store will read them, before they are stored.

The bytes are theirs and stay as they are, so nothing but the serde that was named says what they
mean: a wrong one was found by the first reader.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from statestores.errors import SerializationError
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
