"""What the demo measures of itself: the seconds and rows of each step, and bytes on disk.

Each step shows a progress bar while it works.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's own blocks are

Advance = Callable[[int], None]
"""Tell that so many more rows are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What one step took."""

    step: str
    """What was done."""

    rows: int
    """How many rows it was done to; 0 where rows are not what it is about."""

    seconds: float
    """How long it took, by the clock on the wall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSize:
    """What one store occupies on disk, all its partitions together."""

    store: str
    """Its name."""

    engine: int
    """Bytes of the live engines."""

    changelog: int
    """Bytes of the changelogs."""

    snapshots: int
    """Bytes of the snapshots."""


class _OutcomeColumn(SpinnerColumn):
    """A spinner, and a cross in the end when the step did not come to its end."""

    def render(self, task: Task) -> RenderableType:
        """Return the spinner, the finished text, or the cross."""
        return Text("✗", "red") if task.fields.get("stopped") else super().render(task)


class Figures:
    """The figures of one run."""

    def __init__(self, console: Console) -> None:
        """Measure from now on, and show bars on *console*."""
        self._console = console
        self._began = time.perf_counter()
        self._figures: list[Figure] = []

    @contextmanager
    def step(self, name: str, rows: int = 0) -> Iterator[Advance]:
        """Measure what is done inside, to *rows* rows; give a function that moves the bar.

        Until it is called, the bar only shows that something is being done; if it never is, all
        of *rows* count as done in the end.
        """
        columns = (
            _OutcomeColumn(finished_text="[green]✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        began = time.perf_counter()
        with Progress(*columns, console=self._console) as progress:
            bar = progress.add_task(f"{name:<35}", total=None)
            counted = 0

            def advance(done: int) -> None:
                nonlocal counted
                counted += done
                progress.update(bar, total=rows or counted, completed=counted)

            try:
                yield advance
            except BaseException:
                progress.update(bar, stopped=True)
                raise
            if rows > counted > 0:
                progress.update(bar, stopped=True)
            elif not counted:
                progress.update(bar, total=rows or 1, completed=rows or 1)
        seconds = time.perf_counter() - began
        self._figures.append(Figure(step=name, rows=counted or rows, seconds=seconds))

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures so far, in the order of the steps."""
        return tuple(self._figures)

    def table(self) -> Table:
        """Return rows, seconds and rows per second of each step, and the whole run."""
        table = Table(title="What it took", title_justify="left", title_style="bold")
        table.add_column("step")
        for column in ("rows", "seconds", "rows/s"):
            table.add_column(column, justify="right")
        for figure in self._figures:
            rows = f"{figure.rows:,}" if figure.rows else ""
            speed = f"{figure.rows / figure.seconds:,.0f}" if figure.rows else ""
            table.add_row(figure.step, rows, f"{figure.seconds:.1f}", speed)
        table.add_section()
        table.add_row("the whole run", "", f"{time.perf_counter() - self._began:.1f}", "")
        return table


def size_table(sizes: Iterable[StoreSize]) -> Table:
    """Return *sizes* as a table for people."""
    table = Table(title="On disk (MB)", title_justify="left", title_style="bold")
    table.add_column("store")
    for column in ("engine", "changelog", "snapshots"):
        table.add_column(column, justify="right")
    for size in sizes:
        parts = (size.engine, size.changelog, size.snapshots)
        table.add_row(size.store, *(f"{part / 1e6:.1f}" for part in parts))
    return table


def disk_usage(directory: Path) -> int:
    """Return the bytes that the files below *directory* occupy; of sparse ones, what is used."""
    return sum(
        file.stat().st_blocks * _BLOCK_BYTES for file in directory.rglob("*") if file.is_file()
    )
