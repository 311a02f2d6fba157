"""The measurements in Spark as groups of results, beside all the others.

`reading` and `stateful` also run on their own, and print what they find. One session serves all
groups: starting it takes seconds, and what it has warmed up is warm for both sides.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from statestores_benchmarks.cases import (
    Bars,
    Case,
    Figure,
    Group,
    Metric,
    Scale,
    Target,
    Timed,
)
from statestores_benchmarks.measurement import DisagreementError, Measured
from statestores_benchmarks.results import GroupResult, group_result
from statestores_benchmarks.retired import RETIRED
from statestores_benchmarks.spark.comparison import Comparison, session
from statestores_benchmarks.spark.reading import comparisons
from statestores_benchmarks.spark.stateful import Bench, Sizes
from statestores_benchmarks.spark.stateful import Measured as Query

_BARS = {
    "parquet": Bars(value="seconds"),
    "builtin": Bars(value="seconds"),
    "lookup": Bars(value="seconds"),
    "planning": Bars(value="ms", figure=Figure.MILLISECONDS),
    "process": Bars(value="seconds"),
    "write": Bars(value="seconds"),
}
_TARGETS = {
    "parquet": Target(
        case="statestores",
        base="parquet",
        figure=Figure.SPEED_UP,
        at_least=0.6,
        row="Spark reads a snapshot, against Parquet",
    ),
    "builtin": Target(
        case="statestores",
        base="statestore",
        figure=Figure.SPEED_UP,
        at_least=RETIRED["spark-builtin"].from_the_last_floor,
        row="Spark reads a store, against its own reader of state",
    ),
    "write": Target(
        case="statestores",
        base="parquet",
        figure=Figure.SPEED_UP,
        at_least=0.5,
        row="Spark writes a batch, against Parquet",
    ),
    "lookup": Target(
        case="key=",
        base="everything",
        at_most=RETIRED["spark-lookup"].from_the_last_floor,
        row="Spark looks up one key, against reading everything",
    ),
}
_ROUNDS = 3
"""The most rounds of streaming queries: each of them starts workers anew."""

Part = tuple[str, Callable[[], GroupResult]]
"""A group's name, and what measures it."""

_MICROSECONDS = 1e6


def collect(
    scale: Scale, only: tuple[str, ...], measure: Callable[[Group], list[Measured]]
) -> Iterator[Part]:
    """Yield the parts with their names; *only* holds beginnings of groups' names."""
    with TemporaryDirectory(prefix="statestores-bench-") as name:
        directory = Path(name)
        spark = session(directory)
        try:
            yield from _read(spark, directory / "reading", scale, only, measure)
            yield from _stateful(spark, directory / "stateful", scale, only)
        finally:
            spark.stop()


def _is_chosen(name: str, only: tuple[str, ...]) -> bool:
    return not only or name.startswith(only)


def _read(
    spark: SparkSession,
    directory: Path,
    scale: Scale,
    only: tuple[str, ...],
    measure: Callable[[Group], list[Measured]],
) -> Iterator[Part]:
    directory.mkdir()
    makers = comparisons(
        spark,
        directory,
        rows=scale.large_rows(5_000_000, quick=1_000_000),
        state_rows=scale.large_rows(1_000_000, quick=300_000),
        lookup_rows=scale.large_rows(10_000_000, quick=3_000_000),
    )
    for name, make in makers.items():
        if _is_chosen(f"spark-{name}", only):
            yield f"spark-{name}", partial(_comparison, name, make, measure)


def _comparison(
    name: str, make: Callable[[], Comparison], measure: Callable[[Group], list[Measured]]
) -> GroupResult:
    group = _group(name, make())
    return group_result("spark-reading", group, measure(group))


def _group(name: str, comparison: Comparison) -> Group:
    """Return *comparison* as a group, whose cases need no directory."""
    target = _TARGETS.get(name)
    return Group(
        name=f"spark-{name}",
        title=f"Spark: {comparison.title}",
        operations=comparison.rows,
        metric=Metric.WALL,
        durability=None,
        cases=[Case(case, _ready(timed)) for case, timed in comparison.cases.items()],
        bars=_BARS[name],
        targets=[] if target is None else [target],
    )


def _ready(timed: Timed) -> Callable[[Path], AbstractContextManager[Timed]]:
    """Return what prepares a round of *work* that needs no preparation, and drops its result."""

    def run() -> None:
        timed()

    return lambda path: nullcontext(run)


def _stateful(
    spark: SparkSession, directory: Path, scale: Scale, only: tuple[str, ...]
) -> Iterator[Part]:
    sizes = Sizes(
        rows=scale.large_rows(20_000, quick=20_000),
        keys=scale.large_rows(5_000, quick=5_000),
        batches=3,
    )
    parts: dict[str, tuple[str, Callable[[Bench], list[Query]], list[Target]]] = {
        "spark-word-count": (
            f"Spark: count words, {sizes.rows:,} rows a micro-batch, {sizes.keys:,} words",
            Bench.words,
            [_faster("stateful", "transformWithStateInPandas", "stateful word count")],
        ),
        "spark-as-of-join": (
            f"Spark: join as of a time, {sizes.rows:,} rows a micro-batch, {sizes.keys:,} keys",
            Bench.join,
            [_faster("temporal_join", "transformWithStateInPandas", "as-of join")],
        ),
    }
    for name, (title, run, targets) in parts.items():
        if _is_chosen(name, only):
            fresh = partial(Bench, spark, sizes=sizes)
            rounds = partial(_rounds, directory / name, fresh, run, min(scale.rounds, _ROUNDS))
            yield name, partial(_queries, name, title, sizes, rounds, targets)


def _rounds(
    directory: Path,
    fresh: Callable[[Path], Bench],
    run: Callable[[Bench], list[Query]],
    count: int,
) -> list[list[Query]]:
    """Return what *count* runs found, each in a directory of its own."""
    found = []
    for number in range(count):
        own = directory / str(number)
        own.mkdir(parents=True)
        found.append(run(fresh(own)))
    return found


def _faster(case: str, base: str, what: str) -> Target:
    return Target(
        case=case,
        base=base,
        figure=Figure.SPEED_UP,
        at_least=2,
        row=f"{what} in Spark, against {base}",
    )


def _queries(
    name: str,
    title: str,
    sizes: Sizes,
    run: Callable[[], list[list[Query]]],
    targets: list[Target],
) -> GroupResult:
    """Return queries as cases: elapsed time only, because Spark's work is in other processes.

    Raises:
        DisagreementError: Two queries kept different rows.
    """
    rounds = run()
    for queries in rounds:
        for query in queries[1:]:
            if query.results != queries[0].results:
                raise DisagreementError(
                    f"{name}: {query.name!r} and {queries[0].name!r} have kept different rows"
                )
    group = Group(
        name=name,
        title=title,
        operations=sizes.rows,
        metric=Metric.WALL,
        durability="each side commits its state once a micro-batch, as it does by default",
        cases=[Case(query.name, _ready(lambda: None)) for query in rounds[0]],
        bars=Bars(value="rows a second", figure=Figure.RATE),
        targets=targets,
    )
    return group_result(
        "spark-stateful",
        group,
        [
            Measured(
                query.name,
                wall=[_MICROSECONDS / queries[place].rows_per_s for queries in rounds],
                quantities={"ms a micro-batch": [queries[place].latency_ms for queries in rounds]},
            )
            for place, query in enumerate(rounds[0])
        ],
    )
