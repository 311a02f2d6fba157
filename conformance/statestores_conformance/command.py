"""``statestores conformance``, and ``python -m statestores_conformance``: the suite as a command.

It exits with 0 when every backend conforms, with 1 when one does not or a test timed out, and with
2 for an invalid call: a backend, level, profile or form of report that does not exist. SIGINT and
SIGTERM end the processes of a run, and it still writes its reports, of what was found until then.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from statestores.cli.arguments import parse_pairs
from statestores.cli.sentences import FAILURE, USAGE, complain, run_command
from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    MissingDriverError,
    StateStoreError,
)
from statestores.registry import backend_names
from statestores.stopping import told_of_signals
from statestores_conformance.levels import LEVEL_NAMES, LEVELS
from statestores_conformance.report.files import check_name, write_report
from statestores_conformance.report.json_form import from_json
from statestores_conformance.report.model import Report
from statestores_conformance.report.summary import to_text
from statestores_conformance.runner import PROFILES, Progress, run_conformance

_PROGRAM = "statestores conformance"
_SUCCESS = 0
_BAR = 24
_SECONDS_A_LINE = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with *arguments* and return its exit code."""
    levels = "; ".join(f"{level.name}: {level.meaning}" for level in LEVELS)
    return run_command(conformance, arguments, _PROGRAM, epilog=f"Levels: {levels}")


def _one_of(names: Iterable[str]) -> Callable[[str], str]:
    """Return a parser that accepts one of *names*."""
    known = tuple(names)

    def parse(text: str) -> str:
        if text not in known:
            raise typer.BadParameter(f"{text!r} is none of {', '.join(known)}")
        return text

    return parse


def conformance(
    backends: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BACKEND",
            help="A registered name, module:Class of an engine, or module:function that opens "
            "stores.",
        ),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every backend that is installed.")] = False,
    level: Annotated[
        str | None,
        typer.Option(
            metavar="L",
            parser=_one_of(LEVEL_NAMES),
            help=f"Test up to L: {', '.join(LEVEL_NAMES)}.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Repeat the random parts of a run.")
    ] = None,
    profile: Annotated[
        str,
        typer.Option(
            metavar="P",
            parser=_one_of(PROFILES),
            help=f"How hard to try: {', '.join(PROFILES)}.",
        ),
    ] = "quick",
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            help="Of a soak: start no further round after so long; without it, until interrupted.",
        ),
    ] = None,
    report: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Write a report: .json, .md, .html or .xml (JUnit); {backend} is replaced. "
            "Repeatable.",
        ),
    ] = None,
    badge: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.svg", help="Write a badge with the level. Repeatable."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the backend. Repeatable."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many at a time; one for each core without it."),
    ] = None,
    test_time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="A test that is silent for so long has timed out."),
    ] = None,
    requirement: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only the tests of this one, as ENG-6. Repeatable."),
    ] = None,
    since_last: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Only what did not pass in this report."),
    ] = None,
) -> int:
    """Prove that a backend keeps the contract, in processes of its own."""
    call = _Call(
        level=level,
        profile=profile,
        seed=seed,
        minutes=minutes,
        reports=report or [],
        badges=badge or [],
        processes=processes,
        test_time_limit_s=test_time_limit,
        ignores_missing=every,
        requirements=requirement or [],
        since_last=since_last,
    )
    try:
        chosen = _chosen(backends or [], call, every=every)
        options = parse_pairs("--option", option)
        call.check_names()
    except (InvalidArgumentError, InvalidOptionError) as error:
        return _complain(str(error), USAGE)
    code = _SUCCESS
    stop = _Stop()
    with told_of_signals(stop.take):
        for backend in chosen:
            code = max(code, _prove(backend, call, options, stop, many=len(chosen) > 1))
            if stop.signal is not None:
                return 128 + stop.signal  # like a program that the signal has ended
    return code


class _Stop:
    """The signal that is to end the run, if one has come."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def take(self, number: signal.Signals) -> None:
        """Remember the signal; a second one ends the program at once."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number

    def why(self) -> str | None:
        """Return why the run ends."""
        return None if self.signal is None else f"ended by {self.signal.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """What is asked of each backend."""

    level: str | None
    profile: str
    seed: int | None
    minutes: float | None
    reports: list[Path]
    badges: list[Path]
    processes: int | None
    test_time_limit_s: float | None
    ignores_missing: bool
    """Whether a missing driver is no failure, because the backend is only one of many."""
    requirements: list[str]
    since_last: Path | None

    def read_last(self) -> Report | None:
        """Return the report whose failures are to be run again.

        Raises:
            InvalidArgumentError: It cannot be read.
        """
        if self.since_last is None:
            return None
        try:
            return from_json(self.since_last.read_text("utf-8"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidArgumentError(
                f"{str(self.since_last)!r} is no report of an earlier run in JSON: {error}"
            ) from error

    def check_names(self) -> None:
        """Refuse names of files before the run rather than after it."""
        for path in self.reports:
            check_name(path)
        for path in self.badges:
            if path.suffix != ".svg":
                raise InvalidOptionError(f"a badge is a file that ends in .svg, got {str(path)!r}")

    def write(self, report: Report) -> None:
        """Write *report* into the requested files."""
        name = report.backend.replace(":", "-")
        for path in [*self.reports, *self.badges]:
            write_report(report, Path(str(path).replace("{backend}", name)))


def _chosen(named: list[str], call: _Call, *, every: bool) -> list[str]:
    """Return the backends to be proved.

    Raises:
        InvalidArgumentError: There are none, or their reports would overwrite each other.
    """
    if every and named:
        raise InvalidArgumentError("give backends or --all, not both")
    if every:
        return backend_names()
    if not named:
        raise InvalidArgumentError(
            f"which backend? name one or give --all; registered: {', '.join(backend_names())}"
        )
    files = [*call.reports, *call.badges]
    if len(named) > 1 and any("{backend}" not in str(path) for path in files):
        raise InvalidArgumentError(
            "with several backends the name of a report has to say whose it is: put {backend} in it"
        )
    return named


def _prove(backend: str, call: _Call, options: dict[str, str], stop: _Stop, *, many: bool) -> int:
    """Run the suite for one backend, in rounds if it is a soak, and write what was found."""
    began = time.monotonic()
    seed = call.seed
    while True:
        line = _ProgressLine()
        try:
            report = run_conformance(
                backend,
                level=call.level,
                profile=call.profile,
                seed=seed,
                options=options,
                on_progress=line.show,
                test_time_limit_s=call.test_time_limit_s,
                children=call.processes,
                requirements=call.requirements,
                since_last=call.read_last(),
                stopped=stop.why,
            )
        except MissingDriverError as error:
            # If one of many is not installed here, the others have not failed.
            return _complain(str(error), _SUCCESS if call.ignores_missing and many else USAGE)
        except StateStoreError as error:
            return _complain(str(error), USAGE)
        finally:
            line.clear()
        sys.stdout.write(to_text(report))
        sys.stdout.flush()
        call.write(report)
        if not (report.holds if report.selection else report.conforms):
            return FAILURE
        minutes = (time.monotonic() - began) / 60
        if call.profile != "soak" or (call.minutes is not None and minutes >= call.minutes):
            return _SUCCESS
        seed = report.seed + 1


class _ProgressLine:
    """One line of progress on standard error; in a log, one line every so often."""

    def __init__(self) -> None:
        self._began = self._told = time.monotonic()
        self._shown = sys.stderr.isatty()

    def show(self, progress: Progress) -> None:
        if not self._shown:
            self._tell(progress)
            return
        filled = _BAR * progress.finished // max(1, progress.tests)
        failed = f", {progress.failed} failed" if progress.failed else ""
        sys.stderr.write(
            f"\r\x1b[K{progress.backend} [{'#' * filled}{'.' * (_BAR - filled)}] "
            f"{progress.finished}/{progress.tests}{failed}, {progress.level}, "
            f"{time.monotonic() - self._began:.0f} s"
        )
        sys.stderr.flush()

    def _tell(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._told < _SECONDS_A_LINE:
            return
        self._told = now
        sys.stderr.write(
            f"{progress.backend}: {progress.finished} of {progress.tests} tests, "
            f"{progress.failed} failed, {progress.level}, {now - self._began:.0f} s\n"
        )
        sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _complain(sentence: str, code: int) -> int:
    """Print *sentence* on standard error, in one line, and return *code*."""
    complain(f"{_PROGRAM}: {sentence}")
    return code
