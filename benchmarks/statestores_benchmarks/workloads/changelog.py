"""Appending to a changelog against records of msgpack and CRC, one by one."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgpack

from statestores.changelog import ChangelogOptions, Compression, FileChangelog
from statestores.spi import Changes, Durability
from statestores_benchmarks.cases import Case, Group, Metric, Scale, Target, Timed
from statestores_benchmarks.data import distinct_keys

_ROWS = 1_000
_KIND = "key-value"


def groups(scale: Scale) -> Iterator[Group]:
    """Yield the append and the read of batches of a thousand records."""
    yield _appends(scale.rows(200_000) // _ROWS)
    yield _reads(scale.rows(1_000_000) // _ROWS)


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
        metric=Metric.WALL,
        cases=[
            Case("msgpack and CRC, a record each", partial(_appending_records, batches)),
            Case("Arrow frames", partial(_appending, batches, Compression.NONE)),
            Case("Arrow frames, lz4", partial(_appending, batches, Compression.LZ4)),
            Case("Arrow frames, zstd", partial(_appending, batches, Compression.ZSTD)),
        ],
        targets=[Target(case="Arrow frames", at_most=0.05)],
    )


@contextmanager
def _appending_records(batches: int, path: Path) -> Iterator[Timed]:
    changes = _changes()
    rows = list(zip(changes.keys, changes.values, strict=True))
    packer = msgpack.Packer()
    with (path / "records").open("wb", buffering=0) as file:

        def timed() -> None:
            offset = 0
            for _ in range(batches):
                parts = []
                for key, value in rows:
                    record = packer.pack((offset, key, value))
                    parts.append(len(record).to_bytes(4, "big"))
                    parts.append(zlib.crc32(record).to_bytes(4, "big"))
                    parts.append(record)
                    offset += 1
                file.write(b"".join(parts))

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
