"""Bringing a store back from its changelog, against the raw driver and what others do.

The raw driver has the records in lists in memory and writes them in the order of the log; a restore
of ours reads, checks and decodes the log's files first. Quix Streams and Faust get the messages as
objects, as if their consumers had fetched them already; what fetching costs is not in the figures.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from statestores.arrow import restore
from statestores.changelog import FileChangelog
from statestores.spi import Changes, Durability
from statestores_benchmarks.cases import (
    Case,
    Figure,
    Group,
    Metric,
    Outcome,
    Scale,
    Sweep,
    Target,
    Timed,
)
from statestores_benchmarks.contenders import faust_table, quix
from statestores_benchmarks.data import SEED, distinct_keys, random_values
from statestores_benchmarks.drivers import open_key_values, raw_batch, raw_rocksdb

_LOG_ROWS = 1_000
_BATCH_ROWS = 10_000
_FAUST_ROWS = 1_000
"""Faust's default buffer of recovery."""

_UPDATES = 5
"""Records a key."""

_OURS = "statestores, from the changelog's files"
_RAW = "rocksdict, batches of 10,000"
_QUIX = "Quix Streams"
_FAUST = "Faust, batches of 1,000"
_COMPARED = 200


@dataclass(frozen=True, slots=True)
class _Log:
    """The records of a changelog, oldest first."""

    keys: list[bytes]
    values: list[bytes]

    def rows(self) -> int:
        """Return how many records there are."""
        return len(self.keys)

    def compared(self) -> list[bytes]:
        """Return the keys whose values every case must have in the end."""
        return self.keys[:_COMPARED]


def _log(rows: int) -> _Log:
    keys = distinct_keys(max(1, rows // _UPDATES)) * _UPDATES
    random.Random(SEED).shuffle(keys)
    return _Log(keys, random_values(len(keys)))


MakeLog = Callable[[], _Log]
"""Makes the records for a single round: at most one such list is in memory."""


def groups(scale: Scale) -> Iterator[Group]:
    """Yield the sweep over the records of the log."""
    largest = scale.large_rows(1_000_000, quick=1_000_000)
    sizes = sorted({max(scale.least_rows, largest // part) for part in (100, 10, 1)})
    logs = {size: partial(_log, size) for size in sizes}
    shown = {size: f"{size:,} records" for size in sizes}
    points = [
        *((_RAW, size, _raw, ()) for size in sizes),
        *((_OURS, size, _ours, ()) for size in sizes),
        *((_FAUST, size, _faust, faust_table.NEEDS) for size in sizes),
        *((_QUIX, size, _quix, quix.NEEDS) for size in sizes),
    ]
    yield Group(
        name="recovery",
        title=f"Restore a RocksDB store from up to {largest:,} records, {_UPDATES} a key",
        operations=largest,
        metric=Metric.WALL,
        rounds=3,
        warm_up=False,
        durability="the raw driver, Quix Streams and Faust hand their writes to the operating "
        "system; ours waits for the disk at each commit, because sorted files are synced",
        cases=[
            Case(
                f"{name}, {shown[size]}",
                partial(prepare, logs[size]),
                operations=size,
                series=name,
                at=size,
                needs=needs,
            )
            for name, size, prepare, needs in points
        ],
        sweep=Sweep(
            label="records of the changelog", value="seconds to restore", figure=Figure.SECONDS
        ),
        targets=[
            Target(
                case=f"{_OURS}, {shown[largest]}",
                base=f"{_RAW}, {shown[largest]}",
                figure=Figure.SPEED_UP,
                at_least=2.5,
                row=f"restore of {largest:,} changelog records against raw batch writes",
            ),
            Target(
                case=f"{_OURS}, {shown[largest]}",
                base=f"{_QUIX}, {shown[largest]}",
                figure=Figure.SPEED_UP,
                at_least=10,
                row=f"restore of {largest:,} changelog records against Quix Streams' recovery",
            ),
        ],
    )


@contextmanager
def _raw(make: MakeLog, path: Path) -> Iterator[Timed]:
    log = make()
    with raw_rocksdb(path / "raw") as database:

        def timed() -> Outcome:
            for start in range(0, log.rows(), _BATCH_ROWS):
                batch, write = raw_batch("rocksdb", database)
                put = batch.put
                stop = start + _BATCH_ROWS
                for key, value in zip(log.keys[start:stop], log.values[start:stop], strict=True):
                    put(key, value)
                write()
            return Outcome(answer=lambda: [database.get(key) for key in log.compared()])

        yield timed


@contextmanager
def _ours(make: MakeLog, path: Path) -> Iterator[Timed]:
    log = make()
    with FileChangelog.create(path / "changelog", "key-value") as changelog:
        for start in range(0, log.rows(), _LOG_ROWS):
            stop = start + _LOG_ROWS
            changes = Changes(log.keys[start:stop], log.values[start:stop])
            # A log is on disk when a store is restored from it: otherwise the restore, which waits
            # for its own files, would wait for those of the log as well.
            durability = Durability.PROCESS_CRASH if stop < log.rows() else Durability.POWER_LOSS
            changelog.append(changes, durability=durability)
    with open_key_values("rocksdb", path / "ours") as store:

        def timed() -> Outcome:
            with FileChangelog.open(path / "changelog", "key-value") as changelog:
                restore(store, changelog=changelog)
            return Outcome(answer=lambda: [store.get(key) for key in log.compared()])

        yield timed


@contextmanager
def _quix(make: MakeLog, path: Path) -> Iterator[Timed]:
    log = make()
    messages = quix.messages(log.keys, log.values)
    with quix.recovering(path, log.rows() + 1) as partition:

        def timed() -> None:
            recover = partition.recover_from_changelog_message
            for message in messages:
                recover(message)
            if partition.offset != log.rows() - 1:
                raise AssertionError(partition.offset)

        yield timed


@contextmanager
def _faust(make: MakeLog, path: Path) -> Iterator[Timed]:
    log = make()
    with faust_table.recovering(path, log.keys, log.values) as (store, events):

        def timed() -> None:
            apply = store.apply_changelog_batch
            for start in range(0, len(events), _FAUST_ROWS):
                apply(events[start : start + _FAUST_ROWS], to_key=None, to_value=None)

        yield timed
