"""``python -m statestores_benchmarks``: measure, print the tables, say what was missed."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from statestores_benchmarks.cases import FULL, SCALES, Group, Scale, Workload
from statestores_benchmarks.data import SEED
from statestores_benchmarks.environment import load, machine, revision, versions
from statestores_benchmarks.kafka_stores.groups import WORKLOAD
from statestores_benchmarks.kafka_stores.groups import groups as kafka_groups
from statestores_benchmarks.kafka_stores.peer import why_unavailable
from statestores_benchmarks.measurement import Measured, measure
from statestores_benchmarks.report import report
from statestores_benchmarks.results import GroupResult, Results, Run, group_result
from statestores_benchmarks.tables import missed
from statestores_benchmarks.workloads import DETAILS, WORKLOADS


def main(
    *,
    scale: Annotated[str, typer.Option(help=f"How much work: {', '.join(SCALES)}.")] = "quick",
    full: Annotated[bool, typer.Option(help="The same as --scale full.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Workloads or groups whose name begins so.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Workloads or groups to leave out, likewise.")
    ] = None,
    spark: Annotated[bool, typer.Option(help="Measure in Spark, and nothing else.")] = False,
    kafka_stores: Annotated[
        bool, typer.Option(help="Measure beside Kafka Streams' own stores, and nothing else.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write each round here.")] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="Write the tables here as well.")
    ] = None,
) -> None:
    """Measure the stores against raw drivers and peers, in ratios within one run."""
    if scale not in SCALES:
        raise typer.BadParameter(f"no scale is called {scale!r}; known: {', '.join(SCALES)}")
    size = SCALES["full" if full else scale]
    console = Console(stderr=True)
    prefixes = tuple(only or ())
    run = _Running(size, console)
    if spark:
        from statestores_benchmarks.spark.collected import collect  # noqa: PLC0415  # an extra

        run.take_each(collect(size, prefixes, run.measure))
    elif kafka_stores:
        _require_kafka_streams(console)
        run.measure_each(chosen({WORKLOAD: kafka_groups}, size, prefixes, tuple(skip or ())))
    else:
        left_out = tuple(skip or ()) + (() if size is FULL or only else tuple(DETAILS))
        run.measure_each(chosen(WORKLOADS, size, prefixes, left_out))
    results = run.results()
    if not results.groups and not results.run.failures:
        raise typer.BadParameter(f"nothing begins with {only}; workloads: {', '.join(WORKLOADS)}")
    if json_file is not None:
        results.write(json_file)
    text = report([results])
    sys.stdout.write(text)
    if markdown_file is not None:
        markdown_file.parent.mkdir(parents=True, exist_ok=True)
        markdown_file.write_text(text, encoding="utf-8")
    for sentence in missed([results]):
        console.print(f"missed: {sentence}", style="yellow")
    for failure in results.run.failures:
        console.print(failure, style="red")
    if results.run.failures:
        raise typer.Exit(1)


class _Running:
    """A run under way: what it has so far, and what failed."""

    def __init__(self, scale: Scale, console: Console) -> None:
        self._scale = scale
        self._console = console
        self._started, self._load, self._began = datetime.now(UTC), load(), time.monotonic()
        self._groups: list[GroupResult] = []
        self._failures: list[str] = []

    def measure(self, group: Group) -> list[Measured]:
        """Measure *group* with a line on the terminal."""
        with Progress(console=self._console) as progress:
            task = progress.add_task(group.name, total=None)
            return measure(group, self._scale, partial(progress.advance, task))

    def measure_each(self, groups: Iterator[tuple[str, Group]]) -> None:
        """Measure *groups*, each with its workload's name; one that raises costs only itself."""
        for workload, group in groups:
            with self._noting_failure(group.name):
                self._groups.append(group_result(workload, group, self.measure(group)))

    def take_each(self, parts: Iterator[tuple[str, Callable[[], GroupResult]]]) -> None:
        """Take what each part measures on its own, likewise."""
        for name, measured in parts:
            with self._noting_failure(name):
                self._groups.append(measured())

    @contextmanager
    def _noting_failure(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  # the other groups' minutes are not lost
            said = str(error).partition("\n")[0]
            self._failures.append(f"{name} failed: {type(error).__name__}: {said}")
            self._console.print_exception()

    def results(self) -> Results:
        """Return everything, with the circumstances."""
        return Results(
            Run(
                scale=self._scale.name,
                seed=SEED,
                started=self._started.isoformat(timespec="seconds"),
                seconds=round(time.monotonic() - self._began, 1),
                load=self._load,
                revision=revision(),
                machine=machine(),
                versions=versions(),
                failures=self._failures,
            ),
            self._groups,
        )


def _require_kafka_streams(console: Console) -> None:
    """End with the reason, and without an error, where Kafka Streams' stores do not run."""
    absent = why_unavailable()
    if absent is not None:
        console.print(f"skipped: Kafka Streams' stores: {absent}", style="yellow")
        raise typer.Exit


def chosen(
    workloads: dict[str, Workload], scale: Scale, only: tuple[str, ...], skip: tuple[str, ...]
) -> Iterator[tuple[str, Group]]:
    """Yield the requested groups, by their own names or by those of their workloads.

    Making groups draws their data: if the name of a workload was given, the others are not made.
    """
    named = tuple(prefix for prefix in only if any(name.startswith(prefix) for name in workloads))
    for name, groups in workloads.items():
        if skip and name.startswith(skip):
            continue
        if only and len(named) == len(only) and not name.startswith(named):
            continue
        for group in groups(scale):
            if skip and group.name.startswith(skip):
                continue
            if not only or name.startswith(only) or group.name.startswith(only):
                yield name, group


if __name__ == "__main__":
    typer.run(main)
