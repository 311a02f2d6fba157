"""Restoring a store against the raw driver's fastest load of the same rows."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rocksdict import IngestExternalFileOptions, SstFileWriter

import statestores as ss
from statestores.arrow import commit_many, read_snapshot, restore, write_snapshot
from statestores.arrow.restoring.sink import BATCH_ROWS
from statestores.changelog import FileChangelog, changelog_partition
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Changes, Durability
from statestores.tasks import open_standby
from statestores_benchmarks.cases import Case, Group, Metric, Scale, Target, Timed
from statestores_benchmarks.data import distinct_keys, random_values
from statestores_benchmarks.drivers import raw_batch, raw_rocksdb
from statestores_rocksdb import RocksDBOptions
from statestores_rocksdb.database import driver_options

_COMMIT_ROWS = 10_000
_BATCH_ROWS = 10_000
_SLOWER_AT_MOST = 1 / 0.7
"""At least 70 % of the speed."""

_NATIVE_AT_MOST = 0.5
"""What copying files and opening them may take, of the processor time of loading rows."""

LOG = changelog_partition("bench", 0)

Columns = tuple[list[bytes], list[bytes]]


def groups(scale: Scale) -> Iterator[Group]:
    """Yield the restore of two million rows from a changelog and from a snapshot."""
    rows = scale.rows(2_000_000)
    keys = distinct_keys(rows)
    values = random_values(rows)
    columns = keys, values
    yield Group(
        name="rocksdb-restore",
        title=f"RocksDB: a store of {rows:,} distinct keys, the raw driver's from lists in memory",
        operations=rows,
        metric=Metric.WALL,
        cases=[
            Case("raw driver, sorted by Arrow, one ingested file", partial(_ingesting, columns)),
            Case("raw driver, sorted by Arrow, batches of 10,000", partial(_batching, columns)),
            Case("restore from a changelog", partial(_restoring, columns, _from_changelog)),
            Case("restore from a snapshot", partial(_restoring, columns, _from_snapshot)),
            Case(
                "the changelog, record by record", partial(_restoring, columns, _record_by_record)
            ),
        ],
        targets=[
            Target(case="restore from a changelog", at_most=_SLOWER_AT_MOST),
            Target(case="restore from a snapshot", at_most=_SLOWER_AT_MOST),
        ],
    )

    yield _promotions((keys[: rows // 2], values[: rows // 2]))
    with TemporaryDirectory(prefix="statestores-bench-") as directory:
        yield _natively((keys[: rows // 2], values[: rows // 2]), Path(directory))


def _promotions(columns: Columns) -> Group:
    rows = len(columns[0])
    return Group(
        name="standby-promotion",
        title=f"A writer for a key-value store of {rows:,} rows, after the last one has gone",
        operations=1,
        metric=Metric.WALL,
        cases=[
            Case("restored from the changelog", partial(_restoring_from_scratch, columns)),
            Case("a standby without lag, promoted", partial(_promoting, columns)),
        ],
    )


def _natively(columns: Columns, directory: Path) -> Group:
    """Return the opening of a partition without an engine, by either part of its snapshot."""
    rows = len(columns[0])
    root = directory / "root"

    @contextmanager
    def made(_: Path) -> Iterator[None]:
        if not root.exists():
            _write_native_snapshot(columns, root)
        yield

    return Group(
        name="native-restore",
        title=f"A store of {rows:,} rows opened where there is only its snapshot",
        operations=1,
        cases=[
            Case("raw driver, a checkpoint copied and opened", partial(_copying, root)),
            Case("the native part", partial(_restoring_from_root, root, "")),
            Case("the columns", partial(_restoring_from_root, root, "*.native")),
            Case("raw driver, sorted by Arrow, one ingested file", partial(_ingesting, columns)),
        ],
        around=made,
        targets=[Target(case="the native part", base="the columns", at_most=_NATIVE_AT_MOST)],
    )


def _write_native_snapshot(columns: Columns, path: Path) -> None:
    rows = len(columns[0])
    root = ss.StateRoot.create(path)
    root.add_store(ss.KeyValue("bench"), partitions=1)
    directory = root.partition("bench", 0)
    FileChangelog.create(directory.changelog, "key-value", first_offset=rows).close()
    with ss.open_store(directory.path, ss.KeyValue("bench"), backend="rocksdb") as store:
        commit_many(store, pa.table(columns, names=["key", "value"]), {LOG: rows - 1})
    with ss.open_logged_store(root, "bench") as logged:
        logged.snapshot(snapshot_format="native")


@contextmanager
def _restoring_from_root(source: Path, without: str, path: Path) -> Iterator[Timed]:
    root = path / "root"
    left_out = shutil.ignore_patterns("engine.json", "OWNER.lock", without)
    shutil.copytree(source, root, ignore=left_out, copy_function=os.link)
    shutil.rmtree(root / "bench" / "0" / "engine")
    with ExitStack() as stack:

        def timed() -> None:
            stack.enter_context(ss.open_logged_store(root, "bench", backend="rocksdb"))

        yield timed


@contextmanager
def _copying(source: Path, path: Path) -> Iterator[Timed]:
    (files,) = source.glob("bench/0/snapshots/*.native/engine")
    with ExitStack() as stack:

        def timed() -> None:
            shutil.copytree(files, path / "db")
            stack.enter_context(raw_rocksdb(path / "db"))

        yield timed


def _root(columns: Columns, path: Path) -> ss.StateRoot:
    """Make a state root whose one store has everything in its changelog."""
    root = ss.StateRoot.create(path / "root")
    root.add_store(ss.KeyValue("bench"), partitions=1)
    directory = root.partition("bench", 0)
    directory.path.mkdir(parents=True, exist_ok=True)
    _write_changelog(columns, directory.changelog)
    return root


@contextmanager
def _restoring_from_scratch(columns: Columns, path: Path) -> Iterator[Timed]:
    root = _root(columns, path)
    with ExitStack() as stack:

        def timed() -> None:
            stack.enter_context(ss.open_logged_store(root, "bench", backend="rocksdb"))

        yield timed


@contextmanager
def _promoting(columns: Columns, path: Path) -> Iterator[Timed]:
    root = _root(columns, path)
    with ExitStack() as stack:
        standby = stack.enter_context(
            open_standby(root, "bench", 0, path / "copy", backend="rocksdb")
        )
        standby.poll()

        def timed() -> None:
            stack.enter_context(standby.promote())

        yield timed


def _sorted(columns: Columns) -> Iterator[tuple[bytes, bytes]]:
    """Return the pairs of *columns* in key order; sorting in Python takes longer."""
    keys, values = (pa.array(column, pa.binary()) for column in columns)
    order = pc.sort_indices(keys)
    return zip(keys.take(order).to_pylist(), values.take(order).to_pylist(), strict=True)


@contextmanager
def _ingesting(columns: Columns, path: Path) -> Iterator[Timed]:
    with raw_rocksdb(path / "db") as database:

        def timed() -> None:
            writer = SstFileWriter(driver_options(RocksDBOptions()))
            writer.open(str(path / "sorted"))
            for key, value in _sorted(columns):
                writer[key] = value
            writer.finish()
            moving = IngestExternalFileOptions()
            moving.set_move_files(v=True)
            database.ingest_external_file([str(path / "sorted")], moving)

        yield timed


@contextmanager
def _batching(columns: Columns, path: Path) -> Iterator[Timed]:
    with raw_rocksdb(path / "db") as database:

        def timed() -> None:
            batch, write = raw_batch("rocksdb", database)
            for number, (key, value) in enumerate(_sorted(columns), 1):
                batch.put(key, value)
                if number % _BATCH_ROWS == 0:
                    write()
                    batch, write = raw_batch("rocksdb", database)
            write()

        yield timed


@contextmanager
def _restoring(
    columns: Columns, source: Callable[[Columns, Path], Callable[[Any], None]], path: Path
) -> Iterator[Timed]:
    bring_up = source(columns, path)
    with _open("rocksdb", path / "store") as store:

        def timed() -> None:
            bring_up(store)

        yield timed


def _from_changelog(columns: Columns, path: Path) -> Callable[[Any], None]:
    _write_changelog(columns, path / "changelog")

    def bring_up(store: Any) -> None:
        with FileChangelog.open(path / "changelog", "key-value") as log:
            restore(store, changelog=log)

    return bring_up


def _write_changelog(columns: Columns, path: Path) -> None:
    keys, values = columns
    with FileChangelog.create(path, "key-value") as log:
        for start in range(0, len(keys), _COMMIT_ROWS):
            stop = start + _COMMIT_ROWS
            changes = Changes(keys[start:stop], values[start:stop])
            log.append(changes, durability=Durability.PROCESS_CRASH)


def _from_snapshot(columns: Columns, path: Path) -> Callable[[Any], None]:
    snapshot = _snapshot(columns, path)
    return lambda store: _done(restore(store, snapshot=read_snapshot(snapshot)))


def _record_by_record(columns: Columns, path: Path) -> Callable[[Any], None]:
    _write_changelog(columns, path / "changelog")

    def bring_up(store: Any) -> None:
        waiting = 0
        with FileChangelog.open(path / "changelog", "key-value") as log:
            for frame in log.read():
                store.replay(frame.changes)
                waiting += len(frame.offsets)
                if waiting >= BATCH_ROWS:
                    store.commit({LOG: frame.last_offset})
                    waiting = 0
        store.commit({})

    return bring_up


def _snapshot(columns: Columns, path: Path) -> Path:
    with _open("memory", path) as original:
        original.put_many(*columns)
        original.commit({LOG: len(columns[0])})
        return write_snapshot(original, path / "snapshots").path


def _open(backend: str, path: Path) -> Any:
    engine = load_backend(backend).open(path)
    return open_on_engine(engine, ss.KeyValue("bench"), durability=Durability.PROCESS_CRASH)


def _done(_: object) -> None:
    """Take what a call returns, and return nothing."""
