"""``python -m statestores_benchmarks.report``: tables and plots of results, and where they go."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from statestores_benchmarks import retired, tables
from statestores_benchmarks.results import Results

SECTIONS: dict[str, Callable[[Sequence[Results]], str]] = {
    "circumstances": tables.circumstances,
    "targets": tables.targets,
    "contenders": tables.contenders,
    "absent": tables.absent,
    "images": tables.images,
    "tables": tables.tables,
    "retired": lambda _: retired.table(),
}
"""What a marker in a file may name."""

STANDING = {"retired"}
"""Sections that are of no run: they are written anew even where there is none."""

MARKED = re.compile(
    r"(?P<head><!-- generated: (?P<name>[a-z-]+) -->\n).*?(?P<tail><!-- end -->)", re.DOTALL
)
"""`fill` writes what is between such a pair of lines."""


class UnknownSectionError(ValueError):
    """A file asks for a section that a report does not have."""


def report(runs: Sequence[Results]) -> str:
    """Return everything: the circumstances, the targets, the contenders, and each group."""
    parts = [
        tables.circumstances(runs),
        "## Targets\n\n" + tables.targets(runs),
        "## Contenders\n\n" + tables.contenders(runs),
        "## Not measured\n\n" + tables.absent(runs),
        tables.tables(runs),
    ]
    return "\n\n".join(parts) + "\n"


def fill(text: str, runs: Sequence[Results]) -> str:
    """Return *text* with the generated sections that its markers name.

    Without *runs* these are the `STANDING` ones, and the others stay.

    Raises:
        UnknownSectionError: A marker names no section.
    """

    def section(match: re.Match[str]) -> str:
        if match["name"] not in SECTIONS:
            raise UnknownSectionError(
                f"no section is called {match['name']!r}; known: {', '.join(SECTIONS)}"
            )
        if not runs and match["name"] not in STANDING:
            return match[0]
        return f"{match['head']}\n{SECTIONS[match['name']](runs)}\n\n{match['tail']}"

    return MARKED.sub(section, text)


def main(
    results: Annotated[
        list[Path] | None,
        typer.Argument(help="Files that --json wrote; without one, what is of no run."),
    ] = None,
    *,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="Write everything here.")
    ] = None,
    into: Annotated[
        list[Path] | None,
        typer.Option(help="Write the sections between the markers of this file anew."),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Write the plots into this directory, as PNG and SVG.")
    ] = None,
) -> None:
    """Make tables and plots of one or more results, and say which targets were missed."""
    runs = [Results.read(path) for path in results or ()]
    if markdown_file is not None:
        markdown_file.write_text(report(runs), encoding="utf-8")
    for path in into or ():
        path.write_text(fill(path.read_text(encoding="utf-8"), runs), encoding="utf-8")
    if plots is not None:
        # matplotlib takes most of a second to import, and measuring draws nothing.
        from statestores_benchmarks.plots import plot  # noqa: PLC0415

        for made in plot(runs, plots):
            sys.stdout.write(f"{made}\n")
    for sentence in tables.missed(runs):
        sys.stdout.write(f"missed: {sentence}\n")


if __name__ == "__main__":
    typer.run(main)
