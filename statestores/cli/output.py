"""What a command prints: rows and documents on standard output, remarks on standard error.

A terminal gets tables. A pipe gets a line for each row, its cells separated by tabs, as the rows
come: nothing is cut, and nothing is held back. With ``--json`` both get JSON, and with ``--csv``
rows are CSV (RFC 4180) with the same fields and the same values.
"""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from statestores.cli.columns import Column, table_of
from statestores.errors import InvalidArgumentError
from statestores.text.values import as_json, as_text, dump_json

if TYPE_CHECKING:  # Arrow is an extra that not every command needs
    from statestores.arrow.progress import Progress as RowProgress
    from statestores.arrow.progress import ProgressCallback

_TABLE_ROWS = 200
"""Rows of one table: its widths are known only when all of its rows are there."""


def named(columns: Sequence[Column], rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return *rows* with the names of their *columns*, for a JSON document."""
    names = [column.name for column in columns]
    return [dict(zip(names, row, strict=True)) for row in rows]


class Quiet(Console):
    """A console that lets the application decide what it means that a reader went away."""

    def on_broken_pipe(self) -> NoReturn:
        """Raise what has happened."""
        raise BrokenPipeError


class Output:
    """Where a command prints to, as one call wants it."""

    def __init__(self, *, json: bool, csv: bool = False) -> None:
        """Print JSON, CSV, or for people.

        Raises:
            InvalidArgumentError: Both are wanted.
        """
        if json and csv:
            raise InvalidArgumentError("the output is JSON or CSV; leave --json or --csv out")
        self.json = json
        self.csv = csv
        self._console = Quiet(file=sys.stdout, highlight=False, soft_wrap=True)
        self._remarks: Console = Quiet(file=sys.stderr, highlight=False, soft_wrap=True)

    @property
    def is_terminal(self) -> bool:
        """Whether a table for people is wanted."""
        return self._console.is_terminal and not self.json and not self.csv

    @property
    def console(self) -> Console:
        """Where a command draws that draws more than once: standard output."""
        return self._console

    @property
    def remarks_console(self) -> Console:
        """Where progress is shown: standard error."""
        return self._remarks

    def document(self, content: object) -> None:
        """Print one JSON document."""
        self.line(dump_json(content, indent=2))

    def line(self, text: str) -> None:
        """Print *text* as it is."""
        sys.stdout.write(f"{text}\n")

    def heading(self, text: str) -> None:
        """Print what the next lines are about."""
        self._console.print(Text(text, style="bold"))

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Print names and values, aligned."""
        pairs = list(pairs)
        width = max((len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            line = Text("  ")
            line.append(f"{name:<{width}}  ", style="dim")
            line.append(value)
            self._console.print(line)

    def finding(self, status: str, check: str, path: str, detail: str) -> None:
        """Print the outcome of a check, the damaged ones in red."""
        styles = {"ok": "green", "misplaced": "yellow", "warning": "yellow"}
        styles |= dict.fromkeys(("skipped", "note"), "dim")
        style = styles.get(status, "bold red")
        line = Text(f"{status:<11}", style=style)
        line.append(f"  {check:<9}  {path}: {as_text(detail)}", style="")
        self._console.print(line)

    def remark(self, text: str) -> None:
        """Print *text* on standard error: it is about the output and not a part of it."""
        self._remarks.print(Text(text, style="dim"))

    def rows(
        self, columns: Sequence[Column], rows: Iterable[tuple[Any, ...]], *, limit: int = 0
    ) -> int:
        """Print *rows*, at most *limit* if that is not 0, and say so when there are more.

        Returns how many were printed.
        """
        wanted = iter(rows)
        shown = islice(wanted, limit) if limit else wanted
        if self.json:
            count = self._json_lines(columns, shown)
        elif self.csv:
            count = self._csv_lines(columns, shown)
        elif self.is_terminal:
            count = self._tables(columns, shown)
        else:
            count = self._lines(columns, shown)
        if limit and count == limit and next(wanted, None) is not None:
            self.remark(f"the first {limit}; there are more: --limit N, or --limit 0 for all")
        return count

    def live_rows(
        self, columns: Sequence[Column], rows: Iterable[tuple[Any, ...]], *, limit: int = 0
    ) -> None:
        """Print *rows* as they come, at most *limit* if that is not 0; a table would hold them.

        Whoever gives the rows flushes standard output before waiting for the next one.
        """
        shown = islice(rows, limit) if limit else rows
        if self.json:
            self._json_lines(columns, shown)
        elif self.csv:
            self._csv_lines(columns, shown)
        else:
            self._lines(columns, shown)

    def _json_lines(self, columns: Sequence[Column], rows: Iterable[tuple[Any, ...]]) -> int:
        count = 0
        for count, row in enumerate(rows, 1):  # noqa: B007  # the last one is the number of rows
            fields = {column.name: as_json(cell) for column, cell in zip(columns, row, strict=True)}
            self.line(dump_json(fields))
        return count

    def _csv_lines(self, columns: Sequence[Column], rows: Iterable[tuple[Any, ...]]) -> int:
        """Print a heading, also when there are no rows, and the rows as they come."""
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([column.name for column in columns])
        count = 0
        for count, row in enumerate(rows, 1):  # noqa: B007  # the last one is the number of rows
            writer.writerow([_csv_cell(cell) for cell in row])
        return count

    def _lines(self, columns: Sequence[Column], rows: Iterable[tuple[Any, ...]]) -> int:
        count = 0
        for count, row in enumerate(rows, 1):
            if count == 1:
                self.line("\t".join(column.title for column in columns))
            self.line("\t".join(map(Column.shown, columns, row)))
        return count

    def _tables(self, columns: Sequence[Column], rows: Iterable[tuple[Any, ...]]) -> int:
        count = 0
        remaining = iter(rows)
        for row in remaining:
            table = table_of(
                columns, chain([row], islice(remaining, _TABLE_ROWS - 1)), self._console.width
            )
            count += table.row_count
            self._console.print(table, soft_wrap=False)
        return count

    @contextmanager
    def progress(self, what: str) -> "Iterator[ProgressCallback | None]":
        """Show how far a long operation has come, if standard error is a terminal.

        Where standard output is one too, lines and bar share it, and so they share a console, which
        keeps the bar below the lines. A pipe gets its lines and no bar.
        """
        if not self._remarks.is_terminal:
            yield None
            return
        shared = self._console if self._console.is_terminal else self._remarks
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rows"),
            TimeElapsedColumn(),
            console=shared,
            transient=True,
            redirect_stdout=shared is self._console,
        )
        with self._bar_on(shared), bar:
            task = bar.add_task(what, total=None)

            def update(progress: "RowProgress") -> None:
                bar.update(task, completed=progress.rows, total=progress.total_rows)

            yield update

    @contextmanager
    def status(self, what: str) -> Iterator[Callable[[str], None]]:
        """Give what shows how far something without an end has come, as one line on a terminal.

        Without a terminal it shows nothing.
        """
        if not self._remarks.is_terminal:
            yield lambda _: None
            return
        line = Progress(
            TextColumn("{task.description}:"),
            TextColumn("{task.fields[come]}"),
            TimeElapsedColumn(),
            console=self._remarks,
            transient=True,
            redirect_stdout=False,
        )
        with line:
            task = line.add_task(what, total=None, come="begins")
            yield lambda come: line.update(task, come=come)

    @contextmanager
    def _bar_on(self, console: Console) -> Iterator[None]:
        """Print remarks to *console*, on which there is a bar for a while."""
        remarks, self._remarks = self._remarks, console
        try:
            yield
        finally:
            self._remarks = remarks


def _csv_cell(cell: object) -> object:
    """Return *cell* as JSON has it, lists and objects as a JSON text; ``None`` is empty."""
    if isinstance(cell, bool):
        return dump_json(cell)
    plain = as_json(cell)
    return dump_json(plain) if isinstance(plain, dict | list) else plain
