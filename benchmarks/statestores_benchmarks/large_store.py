"""``python -m statestores_benchmarks.large_store ROWS...``: one store of so many rows, end to end.

Load by table, get, commit, open, snapshot and restore of a key-value store; load, latest and as-of
reads of a versioned one. Each size is done once, in a directory that is removed before the next:
what matters is the growth from one size to the next, beside the raw driver's on the same files.
"""

import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Annotated, Any, TypeVar

import numpy as np
import pyarrow as pa
import typer

import statestores as ss
from statestores.arrow import commit_many
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.changelog import FileChangelog, changelog_partition
from statestores.semantics.rows.layout import DATA
from statestores.semantics.versioned.rows import history_from
from statestores_benchmarks.data import COMMIT_ROWS, SEED, VALUE
from statestores_benchmarks.drivers import RETENTION_MS, raw_rocksdb
from statestores_benchmarks.memory_probe import anonymous_bytes
from statestores_benchmarks.workloads.growth import fill, key_column, key_of, value_column

T = TypeVar("T")

PAIRS, VERSIONS = ss.KeyValue("pairs"), ss.Versioned("versions", history_retention_ms=RETENTION_MS)
READS = 20_000
COMMITS = 20
VERSIONS_A_KEY = 4
TABLE_ROWS = 1_000_000
STEP_MS = 1_000
MIB = 1 << 20
_SAMPLE_S = 0.02


class Rows:
    """The table of one size: a line for each thing that was done."""

    def __init__(self, rows: int) -> None:
        """Measure a store of *rows* rows."""
        self.rows = rows
        sys.stdout.write(f"\n{rows:,} rows\n\n| what | CPU | elapsed | peak memory |\n")
        sys.stdout.write("|---|--:|--:|--:|\n")

    def timed(self, what: str, work: Callable[[], T], *, times: int = 0) -> T:
        """Do *work*, and say what it took: each of *times*, or the whole."""
        gc.collect()
        before = anonymous_bytes()
        with _peak() as peak:
            began, began_s = time.thread_time(), time.perf_counter()
            result = work()
            cpu_s, elapsed_s = time.thread_time() - began, time.perf_counter() - began_s
        grown = (max(peak) - before) / MIB
        self.say(what, _spelled(cpu_s, times), _spelled(elapsed_s, times), f"+{grown:.0f} MiB")
        return result

    def say(self, *cells: str) -> None:
        """Write one line."""
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()


@contextmanager
def _peak() -> Iterator[list[int]]:
    """Give a list to which the process's memory is added, now and again, until the end."""
    seen, stop = [anonymous_bytes()], Event()

    def watch() -> None:
        while not stop.wait(_SAMPLE_S):
            seen.append(anonymous_bytes())

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        stop.set()
        watcher.join()
        seen.append(anonymous_bytes())


def _spelled(seconds: float, times: int) -> str:
    return f"{seconds / times * 1e6:.2f} µs" if times else f"{seconds:.3f} s"


def _pairs(table: Rows, place: Path) -> None:
    """Measure a key-value store, and its snapshot and restores."""
    root = ss.StateRoot.create(place / "root")
    root.add_store(PAIRS, partitions=1)
    directory, log = root.partition("pairs", 0), changelog_partition("pairs", 0)
    FileChangelog.create(directory.changelog, "key-value", first_offset=table.rows).close()
    with ss.open_store(directory.path, PAIRS, backend="rocksdb") as store:
        table.timed("load by table", lambda: _fill(store, table.rows), times=table.rows)
        store.commit({log: table.rows - 1})
    asked = [key_of(number) for number in _drawn(table.rows)]
    # Before anything is put over: what is read then lies in a file of its own.
    _raw(table, directory.path / "engine", [DATA + key for key in asked])
    with table.timed("open", lambda: ss.open_logged_store(root, "pairs")) as logged:
        for turn in ("first", "second"):
            table.timed(f"get, {turn} time", partial(_each, logged.store.get, asked), times=READS)
        table.timed(
            "put 1,000 over old ones and commit, 20 times", partial(_commits, logged, asked)
        )
        table.timed("snapshot, arrow", logged.snapshot)
        shutil.rmtree(directory.snapshots)
        info = table.timed("snapshot, native", partial(logged.snapshot, snapshot_format="native"))
        if info is None or info.native_bytes is None:
            sys.exit("there is no native snapshot")
        columns, files = info.bytes // MIB, info.native_bytes // MIB
        table.say("sizes", f"columns {columns:,} MiB", f"engine's files {files:,} MiB", "")
    shutil.rmtree(directory.path / "engine")
    (directory.path / "engine.json").unlink()
    _restores(table, root, place, asked)


def _raw(table: Rows, engine: Path, asked: list[bytes]) -> None:
    """Measure the raw driver on the files of our engine."""
    with ExitStack() as stack:
        database = table.timed("raw: open", lambda: stack.enter_context(raw_rocksdb(engine)))
        for turn in ("first", "second"):
            table.timed(f"raw: get, {turn} time", partial(_each, database.get, asked), times=READS)


def _restores(table: Rows, root: ss.StateRoot, place: Path, asked: list[bytes]) -> None:
    """Measure openings where there is no engine."""
    (part,) = root.partition("pairs", 0).snapshots.glob("*.native")

    def copied() -> None:
        shutil.copytree(part / "engine", place / "copy")
        with raw_rocksdb(place / "copy"):
            pass

    table.timed("raw: copy the files and open", copied)
    shutil.rmtree(place / "copy")
    for what in ("native", "columns"):
        if what == "columns":
            shutil.rmtree(part)
        opening = partial(ss.open_logged_store, root, "pairs", directory=place / what)
        with table.timed(f"restore, {what}", opening) as logged:
            found: list[object] = [logged.store.get(key) for key in asked[:COMMIT_ROWS]]
            if found != [VALUE] * COMMIT_ROWS or logged.restored.native != (what == "native"):
                sys.exit(f"the restore by {what} gave something else")
        shutil.rmtree(place / what)


def _versions(table: Rows, place: Path) -> None:
    """Measure a versioned store, four versions of each key."""
    keys = table.rows // VERSIONS_A_KEY
    chance = np.random.default_rng(SEED)
    with ss.open_store(place / "versions", VERSIONS, backend="rocksdb") as store:

        def load() -> None:
            for version in range(VERSIONS_A_KEY):
                for start in range(0, keys, TABLE_ROWS):
                    numbers = np.arange(start, min(keys, start + TABLE_ROWS))
                    columns = {
                        "key": key_column(pa.array(numbers)),
                        "value": value_column(chance, len(numbers)),
                        "valid_from": pa.array(np.full(len(numbers), version * STEP_MS)),
                    }
                    commit_many(store, pa.table(columns))

        table.timed("versions: load by table", load, times=table.rows)
    asked = [key_of(number) for number in _drawn(keys)]
    _raw_versions(table, place / "versions" / "engine", asked)
    with ss.open_store(place / "versions", VERSIONS, backend="rocksdb") as store:
        reads: dict[str, Callable[[bytes], object]] = {
            "latest": store.get,
            "as of": partial(store.get, as_of_ms=STEP_MS + 1),
        }
        for turn in ("first", "second"):
            for name, read in reads.items():
                what = f"versions: {name}, {turn} time"
                table.timed(what, partial(_each, read, asked), times=READS)


def _raw_versions(table: Rows, engine: Path, asked: list[bytes]) -> None:
    """Measure the raw driver's get of a latest row, and its seek of a superseded one."""
    with raw_rocksdb(engine) as database:
        sought = [history_from(key, STEP_MS + 1)[0] for key in asked]
        reads: dict[str, Callable[[], None]] = {
            "get": partial(_each, database.get, [DATA + key for key in asked]),
            "seek": partial(_each_sought, database, sought),
        }
        for turn in ("first", "second"):
            for name, read in reads.items():
                table.timed(f"versions, raw: {name}, {turn} time", read, times=READS)


def _each_sought(database: Any, row_keys: list[bytes]) -> None:
    cursor = database.iter()
    for row_key in row_keys:
        cursor.seek(row_key)
        cursor.key()
        cursor.value()


def _fill(store: Any, rows: int) -> None:
    fill(store_of_bytes(store), rows)  # type: ignore[arg-type]  # a key-value store is one over an engine


def _drawn(rows: int) -> list[int]:
    chance = Random(SEED + rows)
    return [chance.randrange(rows) for _ in range(READS)]


def _each(read: Callable[[bytes], object], asked: list[bytes]) -> None:
    for key in asked:
        read(key)


def _commits(logged: Any, asked: list[bytes]) -> None:
    for start in range(0, READS, COMMIT_ROWS):
        for key in asked[start : start + COMMIT_ROWS]:
            logged.store.put(key, VALUE)
        logged.commit()


class Kind(StrEnum):
    """The stores that are measured."""

    PAIRS = "pairs"
    VERSIONS = "versions"


MEASURED = {Kind.PAIRS: _pairs, Kind.VERSIONS: _versions}


def main(
    sizes: Annotated[list[int], typer.Argument(metavar="ROWS...", help="How many rows.")],
    *,
    directory: Annotated[Path | None, typer.Option(help="Where the stores are made.")] = None,
    only: Annotated[Kind | None, typer.Option(help="One kind of store instead of both.")] = None,
) -> None:
    """Measure stores of so many rows; each needs about 500 bytes of disk a row, for a while."""
    for rows in sizes:
        table = Rows(rows)
        for kind, measured in MEASURED.items():
            if only not in (None, kind):
                continue
            with tempfile.TemporaryDirectory(prefix="large-store-", dir=directory) as place:
                measured(table, Path(place))


if __name__ == "__main__":
    typer.run(main)
