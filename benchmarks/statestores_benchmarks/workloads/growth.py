"""What stores cost as they grow: reads, commits and opening, from 10,000 rows to 10 million.

Reads and commits take the same number of rows from every store, so that what differs is the store.
Each is made once for the whole group, in chunks that each span the whole range of keys, as a live
stream would: so files overlap, and the engine has merged whatever it chose to.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import gcd
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow import commit_many
from statestores.semantics.key_value.store import EngineKeyValueStore
from statestores.semantics.rows.layout import DATA
from statestores_benchmarks.cases import (
    FLOOR_FACTOR,
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
from statestores_benchmarks.data import COMMIT_ROWS, SEED, VALUE, VALUE_BYTES
from statestores_benchmarks.drivers import open_key_values, raw_rocksdb
from statestores_benchmarks.retired import asked_for

_SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
_CHUNK_ROWS = 1_000_000
_READS = 20_000
_COMMITS = 20
_STEP = 7_654_321
"""Keys are put in steps of this through their range."""

_CHECKED = 100
_LIMIT = 1.5
_OURS, _RAW = "statestores, RocksDB", "rocksdict"


@dataclass(frozen=True, slots=True)
class Grown:
    """Stores of some sizes in one directory, made when the first group needs them."""

    sizes: tuple[int, ...]
    """Their rows."""

    directory: Path
    """Where they are."""

    @contextmanager
    def made(self, directory: Path) -> Iterator[None]:
        """Make the stores that are missing."""
        for size in self.sizes:
            if not self.path(size).exists():
                with open_key_values("rocksdb", self.path(size)) as store:
                    fill(store, size)
        yield

    def path(self, size: int) -> Path:
        """Return where the store of *size* rows is."""
        return self.directory / str(size)


def groups(scale: Scale) -> Iterator[Group]:
    """Yield reads, opening and commits by the rows of the store; commits come last."""
    sizes = tuple(sorted({scale.large_rows(size, quick=size) for size in _SIZES}))
    with TemporaryDirectory(prefix="statestores-bench-") as directory:
        grown = Grown(sizes, Path(directory))
        yield _reads(grown, scale.rows(_READS))
        yield _opening(grown)
        yield _commits(grown)


def fill(store: EngineKeyValueStore, rows: int) -> None:
    """Put *rows* rows into *store*, a million a commit."""
    step = next(step for step in range(_STEP, 2 * _STEP) if gcd(step, rows) == 1)
    chance = np.random.default_rng(SEED)
    for start in range(0, rows, _CHUNK_ROWS):
        count = min(_CHUNK_ROWS, rows - start)
        numbers = pa.array(np.arange(start, start + count) * step % rows)
        columns = {"key": key_column(numbers), "value": value_column(chance, count)}
        commit_many(store, pa.table(columns))


def key_column(numbers: pa.Array) -> pa.Array:
    """Return the keys of *numbers*: the same as `key_of` of each."""
    digits = pc.utf8_lpad(numbers.cast(pa.string()), 12, "0")
    return pc.binary_join_element_wise("key", digits, "-").cast(pa.binary())


def key_of(number: int) -> bytes:
    """Return the key of *number*."""
    return b"key-%012d" % number


def value_column(chance: np.random.Generator, count: int) -> pa.Array:
    """Return random values, half of each of which cannot be compressed."""
    halves = pa.py_buffer(chance.bytes(count * (VALUE_BYTES // 2)))
    half = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(VALUE_BYTES // 2), count, [None, halves]
    ).cast(pa.binary())
    return pc.binary_join_element_wise(half, half, b"")


def _asked(size: int, count: int) -> list[bytes]:
    chance = Random(SEED + size)
    return [key_of(chance.randrange(size)) for _ in range(count)]


def _points(
    grown: Grown, series: str, prepare: Callable[[int, Path], AbstractContextManager[Timed]]
) -> list[Case]:
    return [
        Case(_name(series, size), partial(prepare, size), series=series, at=size)
        for size in grown.sizes
    ]


def _name(series: str, size: int) -> str:
    return f"{series}, {size:,} rows"


def _by_rows(value: str, figure: Figure = Figure.LATENCY) -> Sweep:
    return Sweep(label="rows of the store", value=value, figure=figure, logarithmic=False)


def _hardly_grows(grown: Grown, what: str) -> Target:
    """Return the bound of the largest store's cost against that of one a hundredth its size."""
    large, small = grown.sizes[-1], grown.sizes[max(0, len(grown.sizes) - 3)]
    return Target(
        case=_name(_OURS, large),
        base=_name(_OURS, small),
        at_most=_LIMIT,
        row=f"{what} a store of {large:,} rows against one of {small:,}",
    )


def _reads(grown: Grown, reads: int) -> Group:
    @contextmanager
    def ours(size: int, path: Path) -> Iterator[Timed]:
        asked = _asked(size, reads)
        with open_key_values("rocksdb", grown.path(size)) as store:
            yield partial(_get_each, store.get, asked)

    @contextmanager
    def raw(size: int, path: Path) -> Iterator[Timed]:
        asked = [DATA + key for key in _asked(size, reads)]  # the rows of our stores
        with raw_rocksdb(grown.path(size)) as database:
            yield partial(_get_each, database.get, asked)

    return Group(
        name="growth-get",
        title=f"Get {reads:,} keys, drawn evenly from stores of different size",
        operations=reads,
        durability=None,
        cases=[*_points(grown, _RAW, raw), *_points(grown, _OURS, ours)],
        around=grown.made,
        sweep=_by_rows("CPU µs a get"),
        targets=asked_for(
            "growth-get",
            _hardly_grows(grown, "get from"),
            Target(
                case=_name(_OURS, grown.sizes[-1]),
                base=_name(_RAW, grown.sizes[-1]),
                at_most=FLOOR_FACTOR,
                row=f"get from a store of {grown.sizes[-1]:,} rows against the driver's get there",
            ),
        ),
    )


def _get_each(get: Callable[[bytes], object], asked: list[bytes]) -> Outcome:
    for key in asked:
        get(key)
    return Outcome(answer=lambda: [get(key) for key in asked[:_CHECKED]])


def _opening(grown: Grown) -> Group:
    @contextmanager
    def ours(size: int, path: Path) -> Iterator[Timed]:
        with ExitStack() as stack:
            yield lambda: _opened(stack, open_key_values("rocksdb", grown.path(size)))

    @contextmanager
    def raw(size: int, path: Path) -> Iterator[Timed]:
        with ExitStack() as stack:
            yield lambda: _opened(stack, raw_rocksdb(grown.path(size)))

    return Group(
        name="growth-open",
        title="Open stores of different size",
        operations=1,
        metric=Metric.WALL,
        durability=None,
        cases=[*_points(grown, _RAW, raw), *_points(grown, _OURS, ours)],
        around=grown.made,
        sweep=_by_rows("ms to open", Figure.MILLISECONDS),
        targets=[
            Target(
                case=_name(_OURS, grown.sizes[-1]),
                figure=Figure.MILLISECONDS,
                at_most=200,
                row=f"open a store of {grown.sizes[-1]:,} rows",
            )
        ],
    )


def _opened(stack: ExitStack, store: AbstractContextManager[object]) -> None:
    stack.enter_context(store)


def _commits(grown: Grown) -> Group:
    @contextmanager
    def ours(size: int, path: Path) -> Iterator[Timed]:
        asked = _asked(size, _COMMITS * COMMIT_ROWS)
        with open_key_values("rocksdb", grown.path(size)) as store:

            def timed() -> None:
                put = store.put
                for start in range(0, len(asked), COMMIT_ROWS):
                    for key in asked[start : start + COMMIT_ROWS]:
                        put(key, VALUE)
                    store.commit({})

            yield timed

    return Group(
        name="growth-commit",
        title="Put 1,000 rows over old ones and commit, in stores of different size",
        operations=_COMMITS,
        cases=_points(grown, _OURS, ours),
        around=grown.made,
        sweep=_by_rows("CPU µs for 1,000 puts and a commit"),
        targets=[_hardly_grows(grown, "commit to")],
    )
