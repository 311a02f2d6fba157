"""``statestores conformance``, and ``python -m statestores_conformance``: the suite as a command.

It ends with 0 when every backend conforms, with 1 when one does not, and with 2 for a call that
cannot be one: a backend, level, profile or form of report that does not exist.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    MissingDriverError,
    StateStoreError,
)
from statestores.registry import backend_names
from statestores_conformance.levels import LEVEL_NAMES, LEVELS
from statestores_conformance.report.files import check_name, write_report
from statestores_conformance.report.model import Report
from statestores_conformance.report.summary import to_text
from statestores_conformance.runner import PROFILES, Progress, run_conformance

_SUCCESS = 0
_FAILURE = 1
_USAGE = 2
_BAR = 24


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with *arguments* and return its exit code."""
    parser = _parser()
    call = parser.parse_args(arguments)
    try:
        backends = _backends(call)
        options = _options(call.option)
        _check_names(call)
    except (InvalidArgumentError, InvalidOptionError) as error:
        return _complain(str(error), _USAGE)
    code = _SUCCESS
    try:
        for backend in backends:
            code = max(code, _prove(backend, call, options, many=len(backends) > 1))
    except KeyboardInterrupt:
        return _complain("interrupted; what was running is not reported", 130)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="statestores conformance",
        description="Prove that a backend keeps the contract, in processes of its own.",
        epilog="levels: " + "; ".join(f"{level.name}: {level.meaning}" for level in LEVELS),
    )
    parser.add_argument(
        "backend",
        nargs="*",
        metavar="BACKEND",
        help="a registered name, module:Class of an engine, or module:function that opens stores",
    )
    parser.add_argument("--all", action="store_true", help="every backend that is installed")
    parser.add_argument(
        "--level", choices=LEVEL_NAMES, metavar="L", help=f"test up to L: {', '.join(LEVEL_NAMES)}"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="repeat the random parts of a run")
    parser.add_argument(
        "--profile",
        choices=list(PROFILES),
        default="quick",
        help="how hard to try; quick without it",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="of a soak: start no further round after so long; without it, until interrupted",
    )
    parser.add_argument(
        "--report",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="write a report: .json, .md, .html or .xml (JUnit); {backend} is replaced; repeatable",
    )
    parser.add_argument(
        "--badge",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.svg",
        help="write a badge with the level",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the backend; repeatable",
    )
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="how many at a time; one for each core without it",
    )
    parser.add_argument(
        "--test-time-limit",
        type=float,
        metavar="SECONDS",
        help="a test that is silent for so long has failed",
    )
    return parser


def _backends(call: argparse.Namespace) -> list[str]:
    named: list[str] = call.backend
    if call.all and named:
        raise InvalidArgumentError("give backends or --all, not both")
    if call.all:
        return backend_names()
    if not named:
        raise InvalidArgumentError(
            f"which backend? name one or give --all; registered: {', '.join(backend_names())}"
        )
    if len(named) > 1 and any("{backend}" not in str(path) for path in call.report + call.badge):
        raise InvalidArgumentError(
            "with several backends the name of a report has to say whose it is: put {backend} in it"
        )
    return named


def _check_names(call: argparse.Namespace) -> None:
    """Refuse names of files before the run, and not after it."""
    for path in call.report:
        check_name(path)
    for path in call.badge:
        if path.suffix != ".svg":
            raise InvalidOptionError(f"a badge is a file that ends in .svg, got {str(path)!r}")


def _options(pairs: Sequence[str]) -> dict[str, str]:
    """Return the options that *pairs* give."""
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidOptionError(f"--option is KEY=VALUE, got {pair!r}")
        options[key] = value
    return options


def _prove(backend: str, call: argparse.Namespace, options: dict[str, str], *, many: bool) -> int:
    """Run the suite for one backend, in rounds if it is a soak, and write what was found."""
    began = time.monotonic()
    seed: int | None = call.seed
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
                test_time_limit_s=call.test_time_limit,
                children=call.processes,
            )
        except MissingDriverError as error:
            # One of many that is not installed here is no failure of the others.
            return _complain(str(error), _SUCCESS if call.all and many else _USAGE)
        except StateStoreError as error:
            return _complain(str(error), _USAGE)
        finally:
            line.clear()
        sys.stdout.write(to_text(report))
        sys.stdout.flush()
        _write(report, call)
        if not report.conforms:
            return _FAILURE
        minutes = (time.monotonic() - began) / 60
        if call.profile != "soak" or (call.minutes is not None and minutes >= call.minutes):
            return _SUCCESS
        seed = report.seed + 1


def _write(report: Report, call: argparse.Namespace) -> None:
    for path in [*call.report, *call.badge]:
        name = report.backend.replace(":", "-")
        write_report(report, Path(str(path).replace("{backend}", name)))


class _ProgressLine:
    """One line on standard error that says how far it is; nothing where nobody looks."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown = sys.stderr.isatty()

    def show(self, progress: Progress) -> None:
        if not self._shown:
            return
        filled = _BAR * progress.finished // max(1, progress.tests)
        failed = f", {progress.failed} failed" if progress.failed else ""
        sys.stderr.write(
            f"\r\x1b[K{progress.backend} [{'#' * filled}{'.' * (_BAR - filled)}] "
            f"{progress.finished}/{progress.tests}{failed}, {progress.level}, "
            f"{time.monotonic() - self._began:.0f} s"
        )
        sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _complain(sentence: str, code: int) -> int:
    """Print *sentence* on standard error, in one line, and return *code*."""
    sys.stderr.write(f"statestores conformance: {' '.join(sentence.split())}\n")
    return code
