"""``python -m statestores_benchmarks.disk_growth``: what expired rows leave on disk.

A store lives for many times its retention, with one put for each millisecond of its time, as fast
as it takes them, and its directory is measured: after each commit, and once each retention when the
engine has come to rest. In between it also holds the input and output of a running compaction. The
unit is the live data: keys, values and times of what can still be read, as bytes without any
engine.
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

import statestores as ss
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores_benchmarks.data import SEED

RETENTIONS = 50
FIRST_MEASURED = 3
"""Retentions before anything is measured: what expires must fill its place first."""

COMMIT_ROWS = 500
KEY_BYTES = 16
TIME_BYTES = 8

_LOG_BYTES = 1024 * 1024
"""RocksDB and LevelDB keep two tables of recent writes and their log, live or not. They are a
constant; with the defaults of 32 and 16 MiB each it would hide what is measured, at sizes that a
benchmark can afford."""

_OPTIONS: dict[str, dict[str, int]] = {
    "rocksdb": {"write_buffer_bytes": _LOG_BYTES},
    "sqlite": {"wal_bytes": _LOG_BYTES},
    "leveldb": {"write_buffer_bytes": _LOG_BYTES},
}

_REST_S = 0.3
"""An engine whose files do not change for this long is at rest."""

Put = Callable[[Any, bytes, bytes, int], object]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of store that forgets."""

    name: str
    """What expires."""

    specification: Callable[[int], Any]
    """Makes its specification with a retention."""

    put: Put
    """Puts one row."""

    times: int
    """Times that a row has."""


KINDS = (
    Kind(
        "time to live",
        lambda retention_ms: ss.TimestampedKeyValue("x", ttl_ms=retention_ms),
        lambda store, key, value, now_ms: store.put(key, value, now_ms),
        1,
    ),
    Kind(
        "windows",
        lambda retention_ms: ss.Window("x", window_size_ms=10, retention_ms=retention_ms),
        lambda store, key, value, now_ms: store.put(key, value, now_ms - now_ms % 10),
        1,
    ),
    Kind(
        "sessions",
        lambda retention_ms: ss.Session("x", retention_ms=retention_ms),
        lambda store, key, value, now_ms: store.put(key, max(0, now_ms - 5), now_ms, value),
        2,
    ),
)


@dataclass(frozen=True, slots=True)
class Growth:
    """The sizes of one directory, as multiples of the live data."""

    settled: float
    """The largest when the engine was at rest, from the third retention on."""

    median: float
    """The median after each commit."""

    most: float
    """The largest after a commit."""

    above_twice: float
    """The share of commits after which it was more than two."""

    closed: float
    """After the store was closed."""


def measure(
    kind: Kind,
    backend: str,
    live_rows: int,
    value_bytes: int,
    *,
    retentions: int = RETENTIONS,
    with_defaults: bool = False,
    rows_per_second: int | None = None,
) -> Growth:
    """Run *kind* on *backend* for *retentions*, in each of which *live_rows* are put."""
    pause_s = 0 if rows_per_second is None else COMMIT_ROWS / rows_per_second
    due_s = time.monotonic()
    chance = random.Random(SEED)
    live_bytes = live_rows * (KEY_BYTES + value_bytes + kind.times * TIME_BYTES)
    sizes: list[int] = []
    settled: list[int] = []
    with tempfile.TemporaryDirectory(prefix="statestores-bench-") as name:
        directory = Path(name) / "store"
        options = None if with_defaults else _OPTIONS.get(backend)
        engine = load_backend(backend).open(directory, options)
        specification = kind.specification(live_rows)
        with open_on_engine(engine, specification, durability=ss.Durability.PROCESS_CRASH) as store:
            for now_ms in range(live_rows * retentions):
                kind.put(store, chance.randbytes(KEY_BYTES), chance.randbytes(value_bytes), now_ms)
                if now_ms % COMMIT_ROWS == COMMIT_ROWS - 1:
                    store.commit({})
                    due_s = max(due_s + pause_s, time.monotonic() - pause_s)
                    time.sleep(max(0, due_s - time.monotonic()))
                    if now_ms >= FIRST_MEASURED * live_rows:
                        sizes.append(disk_bytes(directory))
                if now_ms >= FIRST_MEASURED * live_rows and now_ms % live_rows == live_rows - 1:
                    settled.append(settled_bytes(directory))
        closed = disk_bytes(directory)
    return Growth(
        max(settled) / live_bytes,
        median(sizes) / live_bytes,
        max(sizes) / live_bytes,
        sum(size > 2 * live_bytes for size in sizes) / len(sizes),
        closed / live_bytes,
    )


def settled_bytes(directory: Path) -> int:
    """Return what *directory* takes once that has not changed for a while."""
    size, since = disk_bytes(directory), time.monotonic()
    while time.monotonic() - since < _REST_S:
        time.sleep(_REST_S / 10)
        if size != (size := disk_bytes(directory)):
            since = time.monotonic()
    return size


def disk_bytes(directory: Path) -> int:
    """Return what *directory* takes on disk; a file may vanish while it is examined."""
    return sum(_blocks(directory))


def _blocks(directory: Path) -> Iterator[int]:
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                yield (Path(parent) / name).stat().st_size
            except FileNotFoundError:
                continue


def main(
    *,
    live_rows: Annotated[int, typer.Option(help="Rows within one retention.")] = 20_000,
    value_bytes: Annotated[int, typer.Option(help="Bytes of a value, all of them random.")] = 400,
    backends: Annotated[str, typer.Option(help="Names with commas.")] = "rocksdb,sqlite,leveldb",
    kinds: Annotated[str, typer.Option(help="How the kinds' names begin, with commas.")] = "",
    retentions: Annotated[int, typer.Option(min=FIRST_MEASURED + 1)] = RETENTIONS,
    rows_per_second: Annotated[
        int | None, typer.Option(min=1, help="Put so many rows a second, not as many as can be.")
    ] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="The engines' own options, not buffers of 1 MiB.")
    ] = False,
) -> None:
    """Print how much disk each kind takes on each backend."""
    sys.stdout.write(
        f"{retentions} retentions of {live_rows:,} rows with values of {value_bytes:,} bytes\n\n"
        "| kind | backend | at rest, most | median | most | above two | closed |\n"
        "|---|---|--:|--:|--:|--:|--:|\n"
    )
    for kind in KINDS:
        if not kind.name.startswith(tuple(kinds.split(","))):
            continue
        for backend in backends.split(","):
            grown = measure(
                kind,
                backend,
                live_rows,
                value_bytes,
                retentions=retentions,
                with_defaults=defaults,
                rows_per_second=rows_per_second,
            )
            sys.stdout.write(
                f"| {kind.name} | {backend} | {grown.settled:.2f} | {grown.median:.2f} "
                f"| {grown.most:.2f} | {grown.above_twice:.1%} | {grown.closed:.2f} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    typer.run(main)
