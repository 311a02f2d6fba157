"""What a read of a versioned store costs by how many versions its key has.

The number of rows is the same everywhere: more versions a key are fewer keys. Each store is made
once for the whole group and read from its files.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from statestores_benchmarks.cases import Case, Figure, Group, Prepare, Scale, Sweep, Target, Timed
from statestores_benchmarks.contenders import quix
from statestores_benchmarks.data import COMMIT_ROWS, VALUE, distinct_keys, drawn, times
from statestores_benchmarks.drivers import RETENTION_MS, open_versions

_VERSIONS = (1, 10, 100, 1_000)
_STEP_MS = 1_000
_TEXT = VALUE[:50].hex()
"""Quix Streams' values are JSON: a text with as many bytes as our values."""

_LATEST = "statestores, RocksDB: the latest"
_ANY = "statestores: as of any time"
_QUIX = "Quix Streams: the latest at any time"
_LIMIT = 1.5

Reads = list[tuple[bytes, int]]


def groups(scale: Scale) -> Iterator[Group]:
    """Yield one sweep."""
    rows = scale.rows(100_000)
    reads = min(rows, 10_000)
    with TemporaryDirectory(prefix="statestores-bench-") as directory:
        yield _sweep(rows, reads, Path(directory))


def _sweep(rows: int, reads: int, directory: Path) -> Group:
    series: dict[str, Callable[[int], Prepare]] = {
        _LATEST: lambda versions: partial(_ours, rows, versions, reads, directory, latest=True),
        _ANY: lambda versions: partial(_ours, rows, versions, reads, directory, latest=False),
        _QUIX: lambda versions: partial(_quix, rows, versions, reads, directory),
    }
    return Group(
        name="versions-per-key",
        title=f"Get one of {rows:,} versions, by versions a key",
        operations=reads,
        durability=None,
        cases=[
            Case(
                _name(line, versions),
                prepare(versions),
                series=line,
                at=versions,
                needs=quix.NEEDS if line == _QUIX else (),
            )
            for line, prepare in series.items()
            for versions in _VERSIONS
        ],
        sweep=Sweep(
            label="versions a key",
            value="CPU µs a get",
            figure=Figure.LATENCY,
            logarithmic=False,
        ),
        targets=[
            Target(
                case=_name(line, _VERSIONS[-1]),
                base=_name(line, 10),
                at_most=_LIMIT,
                row=f"get {what} at 1,000 versions a key against 10",
            )
            for line, what in ((_LATEST, "the latest"), (_ANY, "as of any time"))
        ],
    )


def _name(series: str, versions: int) -> str:
    return f"{series}, {versions:,} versions a key"


def _history(rows: int, versions: int) -> Reads:
    keys = distinct_keys(max(1, rows // versions))
    return [(key, version * _STEP_MS) for version in range(versions) for key in keys]


def _asked(rows: int, versions: int, reads: int) -> Reads:
    keys = drawn(distinct_keys(max(1, rows // versions)), reads)
    return list(zip(keys, times(reads, versions * _STEP_MS - 1), strict=True))


def _made(rows: int, versions: int, directory: Path) -> Path:
    """Return a directory with our store, made if it is missing."""
    path = directory / f"ours-{versions}"
    if not path.exists():
        history = _history(rows, versions)
        with open_versions("rocksdb", path) as store:
            for start in range(0, len(history), COMMIT_ROWS):
                for key, timestamp_ms in history[start : start + COMMIT_ROWS]:
                    store.put(key, VALUE, timestamp_ms)
                store.commit({})
    return path


@contextmanager
def _ours(
    rows: int, versions: int, reads: int, directory: Path, path: Path, *, latest: bool
) -> Iterator[Timed]:
    asked = _asked(rows, versions, reads)
    with open_versions("rocksdb", _made(rows, versions, directory)) as store:

        def get_latest() -> None:
            get = store.get
            for key, _ in asked:
                get(key)

        def get_as_of() -> None:
            get = store.get
            for key, time_ms in asked:
                get(key, time_ms)

        yield get_latest if latest else get_as_of


@contextmanager
def _quix(rows: int, versions: int, reads: int, directory: Path, path: Path) -> Iterator[Timed]:
    asked = _asked(rows, versions, reads)
    made = directory / f"quix-{versions}"
    if not made.exists():
        history = _history(rows, versions)
        with quix.timestamped(made, RETENTION_MS) as transactions:
            for start in range(0, len(history), COMMIT_ROWS):
                for key, timestamp_ms in history[start : start + COMMIT_ROWS]:
                    transactions.current.set_for_timestamp(timestamp_ms, _TEXT, key)
                transactions.commit()
    with quix.timestamped(made, RETENTION_MS) as transactions:
        get = transactions.current.get_latest

        def timed() -> None:
            for key, time_ms in asked:
                get(time_ms, key)

        yield timed
