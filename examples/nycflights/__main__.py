"""The main job on real data: flights and weather of New York in 2013, joined as of departure.

    python examples/nycflights --backend rocksdb

All figures are measured in the run, and each result is compared with that of another engine: the
exit code is 1 when one of them differs. `demo_run` has the steps in their order.
"""

import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from demo_run import DemoRun
from source_data import SourceDataError
from statestores.errors import MissingDriverError

_WIDTH_OF_FILES = 110


class Backend(StrEnum):
    """The backends whose stores outlive the process that is killed."""

    ROCKSDB = "rocksdb"
    LEVELDB = "leveldb"
    SQLITE = "sqlite"


def main(
    backend: Annotated[Backend, typer.Option(help="The engine of the stores.")] = Backend.ROCKSDB,
    keep: Annotated[
        Path | None,
        typer.Option(help="A new or empty directory for the state, which then stays there."),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Take about so many flights instead of all.")
    ] = None,
) -> None:
    """Join the flights from New York in 2013 with the weather as of their departure."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_FILES, highlight=False)
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise typer.BadParameter(f"it is not empty: {str(keep)!r}", param_hint="--keep")
    try:
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            held = DemoRun(console, keep.absolute(), backend.value).run(sample)
            console.print(f"the state root is {str(keep / 'state')!r}")
        else:
            with tempfile.TemporaryDirectory(prefix="nycflights-") as directory:
                held = DemoRun(console, Path(directory), backend.value).run(sample)
    except (SourceDataError, MissingDriverError) as error:
        console.print(str(error), style="bold red", markup=False)
        raise typer.Exit(2) from error
    if not held:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
