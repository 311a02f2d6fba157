"""The rows that Spark reads and writes in benchmarks, as a store and as Parquet."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import statestores as ss
from statestores.arrow import bulk_load

PARTITIONS = 2
"""Of stores and of Parquet files: as many as Spark has threads."""

STORE = ss.KeyValue("state")
"""The store that has the rows."""

_SEED = 20261122
_KEY_BYTES, _VALUE_BYTES = 16, 100
_CHUNK_ROWS = 1_000_000


def keys_of(start: int, stop: int) -> pa.Array:
    """Return the keys with these numbers: sixteen digits, so that they sort like the numbers."""
    digits = np.char.zfill(np.arange(start, stop).astype(f"S{_KEY_BYTES}"), _KEY_BYTES)
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_KEY_BYTES), stop - start, [None, pa.py_buffer(digits.tobytes())]
    )
    return fixed.cast(pa.binary())


def _values(start: int, stop: int) -> pa.Array:
    """Return the values of these keys: one half random, the other always the same."""
    count = stop - start
    noise = np.random.default_rng(_SEED + start).integers(
        0, 256, (count, _VALUE_BYTES // 2), np.uint8
    )
    filled = np.full((count, _VALUE_BYTES - _VALUE_BYTES // 2), ord("a"), np.uint8)
    data = np.concatenate([noise, filled], axis=1).tobytes()
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_VALUE_BYTES), count, [None, pa.py_buffer(data)]
    )
    return fixed.cast(pa.binary())


def _chunks(rows: int) -> Iterator[pa.Table]:
    for start in range(0, rows, _CHUNK_ROWS):
        stop = min(start + _CHUNK_ROWS, rows)
        yield pa.table({"key": keys_of(start, stop), "value": _values(start, stop)})


def fill(logged: ss.LoggedStore[ss.KeyValueStore[bytes, bytes]], number: int, rows: int) -> None:
    """Put what partition *number* has of *rows* rows into *logged*, and leave a snapshot."""
    for chunk in _chunks(rows):
        bulk_load(logged.store, chunk.take(np.arange(number, len(chunk), PARTITIONS)))
    logged.snapshot()


def store_of(directory: Path, rows: int) -> Path:
    """Return a state root with *rows* rows under a snapshot for each partition."""
    path, unfinished = directory / f"store-{rows}", directory / f"store-{rows}.tmp"
    if path.exists():
        return path
    root = ss.StateRoot.create(unfinished)
    root.add_store(STORE, partitions=PARTITIONS)
    for number in range(PARTITIONS):
        with ss.open_logged_store(root, STORE, number, backend="rocksdb") as logged:
            fill(logged, number, rows)
    unfinished.rename(path)
    return path


def parquet_of(directory: Path, rows: int) -> Path:
    """Return a directory with the same rows in two Parquet files, as Spark compresses them."""
    path, unfinished = directory / f"parquet-{rows}", directory / f"parquet-{rows}.tmp"
    if path.exists():
        return path
    unfinished.mkdir(parents=True)
    for number in range(PARTITIONS):
        schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
        file = unfinished / f"part-{number}.parquet"
        with pq.ParquetWriter(file, schema, compression="snappy") as writer:
            for chunk in _chunks(rows):
                writer.write_table(chunk.take(np.arange(number, len(chunk), PARTITIONS)))
    unfinished.rename(path)
    return path
