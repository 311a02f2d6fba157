"""``python -m statestores_mutation``: change modules in small ways, and see which tests notice."""

import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Annotated

import typer

from statestores_mutation.drawing import drawn, groups_of, mutations_in
from statestores_mutation.herd import Plan, SoundRunError
from statestores_mutation.judging import judge_by_suite, judge_by_tests
from statestores_mutation.sources import SourceChangedError, Sources
from statestores_mutation.verdicts import (
    Outcome,
    Verdict,
    combined,
    known_equivalents,
    markdown,
    read_verdicts,
    score,
)

_WRONG_USE = 2


def main(
    modules: Annotated[
        list[str], typer.Argument(metavar="MODULE...", help="modules or packages to change")
    ],
    suite: Annotated[
        str, typer.Option(metavar="BACKEND", help="judge by the conformance suite for it")
    ] = "",
    tests: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="judge by these tests; repeat it")
    ] = None,
    sample: Annotated[
        int, typer.Option(min=0, help="how many mutants to draw; 0 makes all of them")
    ] = 0,
    seed: Annotated[int, typer.Option(help="which ones are drawn")] = 1,
    options: Annotated[
        str, typer.Option(metavar="JSON", help="options of the backend that the suite judges")
    ] = "{}",
    jobs: Annotated[int, typer.Option(min=1, help="how many processes at the same time")] = 2,
    budget: Annotated[
        float,
        typer.Option(min=0, help="processor seconds for a mutant, then it is undecided; 0: no end"),
    ] = 0.0,
    results: Annotated[
        Path | None,
        typer.Option(help="write each verdict here, and go on from there when stopped"),
    ] = None,
    table: Annotated[Path | None, typer.Option(help="write the table as Markdown")] = None,
    least: Annotated[
        float, typer.Option(min=0, max=1, help="the least score with which the run succeeds")
    ] = 0.0,
    only: Annotated[str, typer.Option(help="only mutants whose key contains this")] = "",
    survivors: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="make only those that survive in these results of other judges; the table has all",
        ),
    ] = None,
    *,
    each: Annotated[
        bool, typer.Option("--each", help="draw as many of each MODULE, in the order given")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="print the mutants, run none")] = False,
) -> None:
    """Make small changes of MODULE..., one in each process, and run the tests that reach them.

    A mutant is killed when a test fails. One that survives is a hole in the tests, or changes
    nothing that can be seen. Stopped runs go on from the file of results.
    """
    sources = Sources(_within(modules))
    everything = mutations_in(sources, only)
    groups = groups_of(everything, modules) if each else [everything]
    chosen = [mutation for group in groups for mutation in drawn(group, sample, seed)]
    judged = combined(read_verdicts(file) for file in survivors or [])
    if survivors:
        every = {mutation.key: mutation for mutation in everything}
        judged = {key: verdict for key, verdict in judged.items() if key in every}
        chosen = [every[key] for key in every if key in judged and judged[key].is_alive]
    if listing:
        for mutation in chosen:
            typer.echo(f"{mutation.line:5} {mutation.key}")
        return
    if bool(suite) == bool(tests):
        typer.echo("error: give one of --suite BACKEND and --tests PATH", err=True)
        raise typer.Exit(_WRONG_USE)
    found = read_verdicts(results) if results else {}
    waiting = [each for each in chosen if not _is_decided(found.get(each.key))]
    typer.echo(f"{len(chosen):,} mutants, {len(chosen) - len(waiting):,} of them judged before")
    equivalents = known_equivalents()
    # What takes long comes last: what was left undecided, and what nobody can see.
    waiting.sort(key=lambda each: (each.key in equivalents, each.key in found))

    def report(verdict: Verdict) -> None:
        found[verdict.key] = verdict
        if results is not None:
            with results.open("a", encoding="utf-8") as file:
                file.write(verdict.as_line() + "\n")
        mark = "equivalent" if verdict.key in equivalents else verdict.outcome.value
        told = f" | {verdict.by}" if verdict.by else ""
        typer.echo(f"{mark:12} {verdict.line:5} {verdict.key}{told}")

    reach = results.with_suffix(".reach.json") if results else None
    plan = Plan(mutations=waiting, sources=sources, jobs=jobs, budget_s=budget, reach=reach)
    try:
        if waiting and suite:
            judge_by_suite(suite, json.loads(options), plan, report, typer.echo)
        elif waiting:
            judge_by_tests(tests or [], plan, report, typer.echo)
    except (SoundRunError, SourceChangedError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(_WRONG_USE) from error
    verdicts = {each.key: found[each.key] for each in chosen if each.key in found}
    _end(list(combined([judged, verdicts]).values()), equivalents, table, least)


def _is_decided(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.outcome is not Outcome.UNDECIDED


def _within(names: Iterable[str]) -> list[str]:
    """Return the modules of *names*; a package stands for everything in it."""
    found = []
    for name in names:
        module = import_module(name)
        found.append(name)
        if hasattr(module, "__path__"):
            found += [each.name for each in walk_packages(module.__path__, f"{name}.")]
    return list(dict.fromkeys(found))


def _end(
    verdicts: list[Verdict], equivalents: dict[str, str], table: Path | None, least: float
) -> None:
    text = markdown(verdicts, equivalents)
    typer.echo("\n" + text)
    if table is not None:
        table.write_text(text, encoding="utf-8")
    reached = score(verdicts, equivalents)
    dead = sum(verdict.outcome is Outcome.KILLED for verdict in verdicts)
    typer.echo(f"{dead:,} of {len(verdicts):,} killed, score {reached:.1%}")
    if reached < least:
        raise typer.Exit(1)


if __name__ == "__main__":
    application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    application.command()(main)
    application()
