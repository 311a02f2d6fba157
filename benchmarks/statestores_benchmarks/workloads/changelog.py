"""Appending to a changelog against records of msgpack and CRC, one by one."""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from struct import Struct

import google_crc32c
import msgpack
import pyarrow as pa

from statestores.changelog import ChangelogOptions, Compression, FileChangelog
from statestores.spi import Changes, Durability
from statestores_benchmarks.cases import (
    STEADY_ROUNDS,
    Case,
    Figure,
    Group,
    Metric,
    Scale,
    Target,
    Timed,
)
from statestores_benchmarks.data import distinct_keys
from statestores_benchmarks.retired import asked_with_floor

_ROWS = 1_000
_KIND = "key-value"
_BARE = "bare pyarrow, lz4"
_RECORD_HEAD = Struct(">II")


def groups(scale: Scale) -> Iterator[Group]:
    """Yield the append and the read of batches of a thousand records."""
    yield _appends(max(1, scale.rows(200_000) // _ROWS))
    yield _reads(max(1, scale.rows(1_000_000) // _ROWS))


@cache
def _changes() -> Changes:
    keys = distinct_keys(_ROWS)
    values = [
        b'{"id":%d,"name":"name-%d","amount":%d.5,"currency":"EUR","open":true,"note":"0123456789"}'
        % (number, number, number)
        for number in range(_ROWS)
    ]
    return Changes(keys, values)


def _appends(batches: int) -> Group:
    return Group(
        name="changelog-append",
        title=f"Append {batches:,} commits of 1,000 records of about 100 bytes, no fsync",
        operations=batches * _ROWS,
        least_rounds=STEADY_ROUNDS,
        cases=[
            Case("msgpack and CRC, each record written", partial(_writing_each, batches)),
            Case("msgpack and CRC, written together", partial(_writing_together, batches)),
            Case("Arrow frames", partial(_appending, batches, Compression.NONE)),
            Case("Arrow frames, lz4", partial(_appending, batches, Compression.LZ4)),
            Case("Arrow frames, zstd", partial(_appending, batches, Compression.ZSTD)),
            # The floor. Its message has the schema before it, and no position.
            Case(_BARE, partial(_writing_batches, batches)),
        ],
        targets=asked_with_floor(
            "changelog-append",
            Target(
                case="Arrow frames, lz4",
                at_most=0.05,
                row="changelog append of 1,000 records, lz4, against records written one by one",
                floor=_BARE,
            ),
            "changelog append of 1,000 records, lz4, against bare calls of pyarrow",
        ),
    )


def _records(pack: Callable[[object], bytes], first_offset: int) -> Iterator[bytes]:
    """Yield a thousand records: length, CRC, and offset, key and value in msgpack."""
    changes = _changes()
    for offset, (key, value) in enumerate(
        zip(changes.keys, changes.values, strict=True), first_offset
    ):
        record = pack((offset, key, value))
        yield _RECORD_HEAD.pack(len(record), zlib.crc32(record)) + record


@contextmanager
def _writing_each(batches: int, path: Path) -> Iterator[Timed]:
    pack = msgpack.Packer().pack
    with (path / "records").open("wb", buffering=0) as file:

        def timed() -> None:
            for batch in range(batches):
                for record in _records(pack, batch * _ROWS):
                    file.write(record)

        yield timed


@contextmanager
def _writing_together(batches: int, path: Path) -> Iterator[Timed]:
    pack = msgpack.Packer().pack
    with (path / "records").open("wb", buffering=0) as file:

        def timed() -> None:
            for batch in range(batches):
                file.write(b"".join(_records(pack, batch * _ROWS)))

        yield timed


@contextmanager
def _writing_batches(batches: int, path: Path) -> Iterator[Timed]:
    """Give the floor: columns and a compressed message of each batch, a checksum, and a write."""
    changes = _changes()
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    with (path / "messages").open("wb", buffering=0) as file:

        def timed() -> None:
            for _ in range(batches):
                columns = [
                    pa.array(changes.keys, pa.binary()),
                    pa.array(changes.values, pa.binary()),
                ]
                batch = pa.RecordBatch.from_arrays(columns, schema=schema)
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, schema, options=options) as stream:
                    stream.write_batch(batch)
                message = sink.getvalue()
                google_crc32c.value(message)
                file.write(message)

        yield timed


@contextmanager
def _appending(batches: int, compression: Compression, path: Path) -> Iterator[Timed]:
    changes = _changes()
    options = ChangelogOptions(compression=compression)
    with FileChangelog.create(path / "log", _KIND, options) as log:

        def timed() -> None:
            for _ in range(batches):
                log.append(changes, durability=Durability.PROCESS_CRASH)

        yield timed


def _reads(batches: int) -> Group:
    return Group(
        name="changelog-read",
        title=f"Read {batches:,} commits of 1,000 records as Arrow, checked",
        operations=batches * _ROWS,
        metric=Metric.WALL,
        cases=[
            Case("Arrow frames", partial(_reading, batches, Compression.NONE)),
            Case("Arrow frames, lz4", partial(_reading, batches, Compression.LZ4)),
            Case("Arrow frames, zstd", partial(_reading, batches, Compression.ZSTD)),
        ],
        targets=[
            Target(
                case="Arrow frames",
                figure=Figure.RATE,
                at_least=20e6,
                row="changelog read, checked, batches of 1,000, uncompressed",
            ),
            Target(
                case="Arrow frames, lz4",
                figure=Figure.RATE,
                at_least=4e6,
                row="changelog read, checked, batches of 1,000, lz4",
            ),
        ],
        durability=None,
    )


@contextmanager
def _reading(batches: int, compression: Compression, path: Path) -> Iterator[Timed]:
    changes = _changes()
    options = ChangelogOptions(compression=compression)
    with FileChangelog.create(path / "log", _KIND, options) as log:
        for _ in range(batches):
            log.append(changes, durability=Durability.PROCESS_CRASH)

        def timed() -> None:
            rows = 0
            for frame in log.read():
                rows += frame.batch.num_rows
            if rows != batches * _ROWS:
                raise AssertionError(rows)

        yield timed
