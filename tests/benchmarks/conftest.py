"""Results that are made up: their tables and plots can be told beforehand."""

import pytest

from statestores_benchmarks.cases import Bars, Figure, Metric, Sweep, Target
from statestores_benchmarks.results import CaseResult, GroupResult, Results, Run


def case_result(name: str, *times_us: float, **more: object) -> CaseResult:
    """Return a case whose times were all *times_us*."""
    times = list(times_us)
    return CaseResult(
        name=name,
        operations=1_000,
        cpu_us=times,
        process_us=times,
        wall_us=times,
        **more,  # type: ignore[arg-type]  # fields of the class
    )


@pytest.fixture
def results() -> Results:
    """A run with a group of peers, a sweep and bars; one peer is absent."""
    run = Run(
        scale="quick",
        seed=1,
        started="2026-11-22T05:45:00+00:00",
        seconds=600.0,
        load=0.25,
        revision="0123456789ab",
        machine={"processor": "A", "cores": "2", "memory": "24 GiB", "system": "Linux 6"},
        versions={"python": "3.11.7", "lmdb": "3.0.0", "polars": "not installed"},
    )
    peers = GroupResult(
        workload="contenders",
        name="everybody-put",
        title="Everybody: put",
        operations=1_000,
        metric=Metric.CPU,
        durability="no fsync",
        sweep=None,
        bars=None,
        row="put",
        cases=[
            case_result("rocksdict", 4.0, 4.0, 8.0, contender="rocksdict"),
            case_result("ours", 2.0, 3.0, 4.0, contender="statestores"),
            case_result("lmdb", 1.0, 1.0, 2.0, contender="lmdb"),
            CaseResult(
                name="quix",
                operations=1_000,
                contender="Quix Streams",
                absent="quixstreams is not installed",
            ),
        ],
        targets=[
            Target(case="ours", at_most=0.6, stretch=0.5, row="put against rocksdict"),
            Target(case="ours", base="lmdb", at_most=1, row="put against lmdb"),
            Target(
                case="rocksdict",
                base="ours",
                figure=Figure.SPEED_UP,
                at_least=5,
                row="rocksdict against ours",
            ),
            Target(case="ours", base="quix", at_most=0.2, row="put against Quix Streams"),
            Target(case="ours", at_most=0.2, row="put, as it was", floor="lmdb", unasked="retired"),
        ],
    )
    sweep = GroupResult(
        workload="key-value",
        name="commit-interval",
        title="Put, by puts between two commits",
        operations=1_000,
        metric=Metric.CPU,
        durability=None,
        sweep=Sweep(label="puts between two commits", value="puts a second"),
        bars=None,
        row=None,
        cases=[
            case_result("raw, 1", 5.0, 6.0, series="rocksdict", at=1),
            case_result("raw, 100", 5.0, 5.0, series="rocksdict", at=100),
            case_result("ours, 1", 9.0, 8.0, series="statestores, RocksDB", at=1),
            case_result("ours, 100", 3.0, 2.0, series="statestores, RocksDB", at=100),
        ],
        targets=[],
    )
    bars = GroupResult(
        workload="spark",
        name="spark-read",
        title="Read a store",
        operations=1_000,
        metric=Metric.WALL,
        durability=None,
        sweep=None,
        bars=Bars(value="seconds"),
        row=None,
        cases=[case_result("statestores", 1.0, 1.2), case_result("Spark's own", 3.0, 3.5)],
        targets=[],
    )
    return Results(run, [peers, sweep, bars])
