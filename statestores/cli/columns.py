"""The columns of rows that a command prints, and rows as a table that a terminal has room for.

Where there is no room for whole cells, columns with long ones give way first, and headings keep
their words as far as possible: a table that is folded within words cannot be read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from statestores.text.times import format_time
from statestores.text.values import as_text

_CELL_CHARACTERS = 200
"""Longer cells are cut."""

_GAP = 2
"""Characters between two columns, if there is room; else there is one."""

_TIME_CHARACTERS = len("18:54:52.681Z")
"""Where a table is narrow, a time is on two lines: the day, and this."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of rows."""

    name: str
    """The name of the field in JSON; it does not change between releases."""

    title: str
    """The heading."""

    text: Callable[[Any], str] = as_text
    """How a cell is shown to people. ``None`` is shown as nothing."""

    if_any: bool = False
    """Whether a table leaves the column out where no row has anything in it."""

    @property
    def is_time(self) -> bool:
        """Whether its cells are times."""
        return self.text is format_time

    def shown(self, cell: object) -> str:
        """Return *cell* for people."""
        return "" if cell is None else self.text(cell)


def time_column(name: str, title: str) -> Column:
    """Return a column of times: ISO 8601 for people, milliseconds in JSON."""
    return Column(name, title, format_time)


def table_of(columns: Sequence[Column], rows: Iterable[tuple[Any, ...]], width: int) -> Table:
    """Return *rows* as a table for people on a terminal of that *width*; long cells are cut."""
    rows = list(rows)
    shown = [
        (column, [_text(column, row[number]) for row in rows])
        for number, column in enumerate(columns)
        if not column.if_any or any(row[number] is not None for row in rows)
    ]
    wanted = [max(map(cell_len, (column.title, *cells))) for column, cells in shown]
    least = [min(_narrowest(column), most) for (column, _), most in zip(shown, wanted, strict=True)]
    between = max(len(shown) - 1, 0)
    gap = _GAP if sum(least) + _GAP * between <= width else 1
    widths = _fitted(wanted, least, width - gap * between)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, gap, 0, 0))
    for (column, _), chosen in zip(shown, widths, strict=True):
        table.add_column(column.title, overflow="fold", width=chosen)
    for cells in zip(*(cells for _, cells in shown), strict=True):
        table.add_row(*map(Text, cells))
    return table


def _fitted(wanted: list[int], least: list[int], room: int) -> list[int | None]:
    """Return a width for each column, the widest ones narrowed until all fit into *room*.

    Where even the *least* do not fit, widths are left to be found.
    """
    if sum(least) > room:
        return [None] * len(wanted)
    widths = list(wanted)
    while sum(widths) > room:
        at = max(
            (number for number, each in enumerate(widths) if each > least[number]),
            key=widths.__getitem__,
        )
        widths[at] -= 1
    return list(widths)


def _narrowest(column: Column) -> int:
    """Return how narrow *column* may become without a break in a word of its heading."""
    words = max(map(cell_len, column.title.split()), default=1)
    return max(words, _TIME_CHARACTERS) if column.is_time else words


def _text(column: Column, cell: object) -> str:
    """Return *cell* as a table has it; a time may be broken between day and hour."""
    text = column.shown(cell)
    if column.is_time:
        return text.replace("T", " ")
    if len(text) <= _CELL_CHARACTERS:
        return text
    return f"{text[:_CELL_CHARACTERS]}… ({len(text):,} characters)"
