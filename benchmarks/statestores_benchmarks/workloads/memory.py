"""What many stores of one process take together, with and without a budget."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from statestores_benchmarks.cases import Case, Figure, Group, Metric, Outcome, Scale, Target, Timed

_MIB = 1024 * 1024
_BUDGET_MIB = 64
_STORES = 16
_ALLOWED = 1.5
"""A commit's pending rows, iterators and what the allocator keeps come on top of a budget."""

_GROWN = "MiB above the start"
_WITH, _WITHOUT = f"one budget of {_BUDGET_MIB} MiB", "without a budget, the defaults"


def groups(scale: Scale) -> Iterator[Group]:
    """Yield stores of RocksDB and LevelDB in one process."""
    rows = scale.large_rows(40_000, quick=10_000)
    for backend in ("rocksdb", "leveldb"):
        yield Group(
            name=f"{backend}-memory",
            title=f"{backend}: fill and read {_STORES} stores of {rows:,} rows of 500 bytes",
            operations=_STORES * rows * 2,
            metric=Metric.WALL,
            rounds=3,
            warm_up=False,
            cases=[
                Case(_WITHOUT, partial(_process, backend, 0, rows)),
                Case(_WITH, partial(_process, backend, _BUDGET_MIB * _MIB, rows)),
            ],
            targets=[
                Target(
                    case=_WITH,
                    figure=Figure.QUANTITY,
                    quantity=_GROWN,
                    at_most=_BUDGET_MIB * _ALLOWED,
                    row=f"memory of {_STORES} stores with a budget of {_BUDGET_MIB} MiB, {backend}",
                )
            ],
        )


@contextmanager
def _process(backend: str, budget_bytes: int, rows: int, path: Path) -> Iterator[Timed]:
    numbers = map(str, (budget_bytes, _STORES, rows))
    command = [sys.executable, "-m", "statestores_benchmarks.memory_probe", str(path), backend]

    def timed() -> Outcome:
        ran = subprocess.run(  # noqa: S603  # this interpreter, a program of our own
            [*command, *numbers], capture_output=True, text=True, check=True
        )
        return Outcome(quantities={_GROWN: int(ran.stdout) / _MIB})

    yield timed
