"""`run_conformance`: one backend, proved in processes of its own."""

import json
import os
import platform
import random
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from statestores import errors
from statestores.errors import InvalidArgumentError, StateStoreError
from statestores.files.scratch_directory import scratch_directory
from statestores_conformance.intensity import SEED_VARIABLE, SHARE_VARIABLE
from statestores_conformance.levels import LEVEL_NAMES
from statestores_conformance.report.judging import (
    TestOutcome,
    failures_of,
    judge_levels,
    judge_requirements,
    level_reached,
)
from statestores_conformance.report.model import Report
from statestores_conformance.requirements import spec_version
from statestores_conformance.runner.profiles import PROFILES, Profile
from statestores_conformance.runner.selection import Selection
from statestores_conformance.runner.subject import VARIABLE
from statestores_conformance.runner.supervisor import Findings, Supervisor

_MEMORY = Path("/dev/shm")  # noqa: S108  # checked before it is used, and a directory of our own
_MEMORY_BYTES = 1 << 30

_STORAGE = "HYPOTHESIS_STORAGE_DIRECTORY"
"""Where Hypothesis keeps the constants of the programs it tests. It reads all of those that are no
installed packages to find them, a second for each process, so a directory that is named stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run has come."""

    backend: str
    finished: int
    """Tests whose outcome is known."""

    tests: int
    """All tests of the run."""

    failed: int
    test: str
    """The test that ended last."""

    level: str
    """The level that it belongs to."""


def run_conformance(
    backend: str,
    *,
    level: str | None = None,
    profile: str = "quick",
    seed: int | None = None,
    options: Mapping[str, str] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    test_time_limit_s: float | None = None,
    children: int | None = None,
    max_failures: int | None = None,
    requirements: Iterable[str] = (),
    since_last: Report | None = None,
    stopped: Callable[[], str | None] | None = None,
) -> Report:
    """Run the suite against *backend* and return what was found.

    Args:
        backend: A registered name, ``module:Class`` of an engine, or ``module:function`` that opens
            a store from a directory and a specification (door two).
        level: The highest level to test; by default every level.
        profile: ``quick``, ``full`` or ``soak``: how hard to try. Here a soak is one round.
        seed: The seed of everything random; by default a new one. The report has it.
        options: Options to open the backend with.
        on_progress: Called after each test, in this thread.
        test_time_limit_s: After this long without a sign of life a test has timed out.
        children: How many processes at a time; by default one for each core.
        max_failures: Stop after this many failed tests. What was not run is reported as such.
        requirements: Run the tests of these only, such as ``ENG-6``.
        since_last: Run only the tests that did not pass in this report.
        stopped: Asked again and again; a sentence ends the run, and the report has what was found
            until then.

    Raises:
        UnknownBackendError: Nothing can be found or imported under the name.
        MissingDriverError: The package that the backend drives is not installed.
        InvalidArgumentError: There is no such level or profile, no test of a requirement, or
            nothing that did not pass.
    """
    selection = Selection.of(requirements, since_last)
    chosen = _profile(profile)
    asked = _level(level)
    start = random.SystemRandom().randrange(2**32) if seed is None else seed
    began = time.monotonic()
    findings = _supervise(
        backend,
        asked,
        chosen,
        start,
        options or {},
        on_progress,
        chosen.test_time_limit_s if test_time_limit_s is None else test_time_limit_s,
        children or os.cpu_count() or 1,
        max_failures,
        selection,
        stopped or (lambda: None),
    )
    if findings.refused is not None:
        raise _refusal(*findings.refused)
    return _report(
        findings,
        backend=backend,
        asked=asked,
        profile=chosen,
        seed=start,
        options=dict(options or {}),
        selection=selection.words,
        seconds=time.monotonic() - began,
    )


def _profile(name: str) -> Profile:
    try:
        return PROFILES[name]
    except KeyError as error:
        raise InvalidArgumentError(
            f"no profile is called {name!r}; known: {', '.join(PROFILES)}"
        ) from error


def _level(name: str | None) -> str:
    if name is None:
        return LEVEL_NAMES[-1]
    if name not in LEVEL_NAMES:
        raise InvalidArgumentError(f"no level is called {name!r}; known: {', '.join(LEVEL_NAMES)}")
    return name


def _supervise(
    backend: str,
    level: str,
    profile: Profile,
    seed: int,
    options: Mapping[str, str],
    on_progress: Callable[[Progress], None] | None,
    time_limit_s: float,
    children: int,
    max_failures: int | None,
    selection: Selection,
    stopped: Callable[[], str | None],
) -> Findings:
    """Run the tests in a directory that is removed afterwards."""

    def on_change(findings: Findings, test: str) -> None:
        if on_progress is not None:
            on_progress(
                Progress(
                    backend=backend,
                    finished=findings.finished,
                    tests=len(findings.tests),
                    failed=findings.failed,
                    test=test,
                    level=findings.tests[test].level,
                )
            )

    # A killed child may leave files that it was still writing; nobody owns them.
    with scratch_directory(_place(profile)) as directory:
        return Supervisor(
            directory=directory,
            seed=seed,
            call={
                "level": level,
                "phases": profile.phases,
                "examples": profile.examples,
                "steps": profile.steps,
            },
            environment=_environment(backend, options, profile, seed, directory),
            children=children,
            time_limit_s=time_limit_s,
            max_failures=max_failures,
            on_change=on_change,
            is_selected=selection.takes,
            stopped=stopped,
        ).run()


def _place(profile: Profile) -> Path | None:
    """Return where the files of a run go: in memory if the profile says so and there is room."""
    if not profile.in_memory or not os.access(_MEMORY, os.W_OK):
        return None
    return _MEMORY if shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES else None


def _environment(
    backend: str, options: Mapping[str, str], profile: Profile, seed: int, directory: Path
) -> dict[str, str]:
    """Return what the children find in their environment in addition to ours."""
    return {
        VARIABLE: json.dumps({"backend": backend, "options": dict(options)}),
        SEED_VARIABLE: str(seed),
        SHARE_VARIABLE: str(profile.share),
        "STATESTORES_SOAK": "1" if profile.soak else "0",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
        "TMPDIR": str(directory),
        _STORAGE: os.environ.get(_STORAGE, f"{directory}/hypothesis"),
    }


def _refusal(name: str, sentence: str) -> StateStoreError:
    """Return the error that the child could not load the backend with."""
    found = getattr(errors, name, None)
    if isinstance(found, type) and issubclass(found, StateStoreError):
        return found(sentence)
    return StateStoreError(sentence)


def _report(
    findings: Findings,
    *,
    backend: str,
    asked: str,
    profile: Profile,
    seed: int,
    options: dict[str, str],
    selection: str,
    seconds: float,
) -> Report:
    """Put everything together."""
    outcomes = list(findings.tests.values())
    if findings.broken:
        outcomes.append(
            TestOutcome(
                test="the first opening",
                level=LEVEL_NAMES[0],
                requirements=("ENG-17",),
                outcome="failed",
                step="opening",
                reason=findings.broken,
            )
        )
    levels = judge_levels(outcomes, findings.capabilities, asked, selection)
    reached, stopped_by = level_reached(levels)
    return Report(
        backend=backend,
        level=reached,
        stopped_by=stopped_by,
        levels=levels,
        requirements=judge_requirements(outcomes),
        failures=failures_of(outcomes),
        timeouts=failures_of(outcomes, "timed out"),
        selection=selection,
        problems=tuple(findings.problems),
        capabilities=findings.capabilities,
        options=options,
        asked_level=asked,
        profile=profile.name,
        seed=seed,
        seconds=round(seconds, 1),
        tests=len(outcomes),
        spec_version=spec_version(),
        statestores_version=version("statestores"),
        python=platform.python_version(),
        platform=platform.platform(terse=True),
    )
