"""The command `top`: the partitions of a state root as they are written, again and again."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, TypeAlias

import typer
from rich.live import Live

from statestores.cli.arguments import CsvOption, JsonOption, LocalOption, StoreOption
from statestores.cli.columns import Column, table_of, time_column
from statestores.cli.facts import size_of
from statestores.cli.operating.lag import owner_words
from statestores.cli.operating.partition_lag import PartitionLag, lag_of
from statestores.cli.operating.root_partitions import locate_root, root_partitions
from statestores.cli.output import Output
from statestores.stopping import StopRequest, stopped_by_signals
from statestores.text.sizes import format_bytes

_Row: TypeAlias = tuple[Any, ...]

_STEP_SECONDS = 0.1
"""How long it takes at most to notice that it is to end."""

COLUMNS = (
    Column("store", "store"),
    Column("partition", "partition"),
    Column("condition", "condition"),
    Column("owner", "opened by", if_any=True),
    Column("end_offset", "end offset"),
    Column("changes_per_second", "changes/s", lambda rate: f"{rate:,.0f}"),
    Column("since_snapshot", "since snapshot"),
    Column("changelog_bytes", "changelog", format_bytes),
    time_column("last_write_ms", "last write"),
    Column("detail", "detail", if_any=True),
)
"""What is shown of each partition. No engine is opened for it."""


class _Sample(NamedTuple):
    """All partitions at one moment."""

    at: float
    """By the clock that only goes forward, in seconds."""

    partitions: list[PartitionLag]


def top(
    root: Annotated[
        str, typer.Argument(metavar="ROOT", help="A state root, or one of its stores.")
    ],
    *,
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600, metavar="SECONDS", help="How often to look.")
    ] = 2.0,
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="How often in all. By default for ever on a terminal, and once elsewhere.",
        ),
    ] = None,
    store: StoreOption = None,
    local: LocalOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Show the partitions of a state root live: who has them open, how fast they grow, how large.

    No lock is taken and no engine opened. On a terminal a table is drawn anew; elsewhere each look
    is a block of lines. Control-C ends it.

    Example: statestores top state/ --interval 1
    """
    output = Output(json=json, csv=csv)
    location = locate_root(root, store, local)
    partitions = root_partitions(location, store)
    looks = count if count is not None or output.is_terminal else 1
    stop = StopRequest()
    before: _Sample | None = None
    with stopped_by_signals(stop.set), _screen(output) as screen:
        look = 0
        while not stop.is_set():
            now = _Sample(
                time.monotonic(), [lag_of(each, None, open_engine=False) for each in partitions]
            )
            rows = list(_rows(before, now))
            if screen is None:
                output.rows(COLUMNS, rows)
                sys.stdout.flush()
            else:
                screen.update(table_of(COLUMNS, rows, output.console.width), refresh=True)
            look += 1
            if looks is not None and look >= looks:
                break
            before = now
            _wait(stop, interval)


def _wait(stop: StopRequest, seconds: float) -> None:
    """Wait for *seconds*, or until *stop* is made."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not stop.wait(min(left, _STEP_SECONDS)):
        pass


def _rows(before: _Sample | None, now: _Sample) -> Iterator[_Row]:
    """Yield the cells of each partition, with rates since the sample *before*."""
    for index, found in enumerate(now.partitions):
        rate = None
        if before is not None:
            ends = before.partitions[index].end_offset, found.end_offset
            if ends[0] is not None and ends[1] is not None and now.at > before.at:
                rate = (ends[1] - ends[0]) / (now.at - before.at)
        partition = found.partition
        yield (
            None if partition.specification is None else partition.specification.name,
            partition.number,
            found.condition.value,
            owner_words(found),
            found.end_offset,
            rate,
            found.since_snapshot,
            size_of(partition.directory.changelog),
            found.last_write_ms,
            found.detail,
        )


@contextmanager
def _screen(output: Output) -> Iterator[Live | None]:
    """Give what is drawn anew, if there is a terminal."""
    if not output.is_terminal:
        yield None
        return
    with Live(console=output.console, auto_refresh=False, transient=False) as live:
        yield live
