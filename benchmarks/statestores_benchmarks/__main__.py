"""``python -m statestores_benchmarks``: measure, print the tables, say what was missed."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from statestores_benchmarks.cases import FULL, QUICK, Group
from statestores_benchmarks.measurement import measure
from statestores_benchmarks.report import Result, markdown, missed, write_json
from statestores_benchmarks.workloads import WORKLOADS


def main(
    *,
    full: Annotated[bool, typer.Option(help="The published sizes, seven rounds.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Workloads or groups whose name begins so.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write each round here.")] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="Write the tables here as well.")
    ] = None,
) -> None:
    """Measure the stores against the raw drivers, in ratios within one run."""
    scale = FULL if full else QUICK
    prefixes = tuple(only or ())
    results: list[Result] = []
    console = Console(stderr=True)
    with Progress(console=console) as progress:
        for name, groups in WORKLOADS.items():
            for group in groups(scale):
                if not _is_chosen(prefixes, name, group):
                    continue
                task = progress.add_task(group.name, total=(scale.rounds + 1) * len(group.cases))
                measured = measure(group, scale.rounds, partial(progress.advance, task))
                results.append(Result(group, measured))
    if not results:
        raise typer.BadParameter(f"nothing begins with {only}; workloads: {', '.join(WORKLOADS)}")
    text = markdown(results, scale)
    sys.stdout.write(text)
    if json_file is not None:
        write_json(results, scale, json_file)
    if markdown_file is not None:
        markdown_file.write_text(text, encoding="utf-8")
    for sentence in missed(results):
        console.print(f"missed: {sentence}", style="yellow")


def _is_chosen(only: tuple[str, ...], workload: str, group: Group) -> bool:
    """Return whether a group is asked for: by its name, or by that of its workload."""
    return not only or workload.startswith(only) or group.name.startswith(only)


if __name__ == "__main__":
    typer.run(main)
