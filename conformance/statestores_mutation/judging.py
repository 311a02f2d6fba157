"""Which tests judge the mutants: the conformance suite for a backend, or tests by their paths."""

import json
import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from statestores_conformance.intensity import SEED_VARIABLE, SHARE_VARIABLE
from statestores_conformance.runner import PROFILES
from statestores_conformance.runner.subject import VARIABLE
from statestores_mutation.herd import Herd, Plan, SoundRunError
from statestores_mutation.verdicts import Verdict

_INI = "[pytest]\nfilterwarnings = error\nxfail_strict = true\n"
_SUITE = "statestores_conformance.runner.subject_tests"
_PROFILE = "mutation"
_PLUGINS = ("no:cacheprovider", "no:randomly")
"""Not those whose options or hooks a project's own tests may name: pytest would refuse to start."""

# The limits of mutants are the herd's own, by the same alarm that pytest-timeout would set.
# Nobody reads a failure here, so assertions need no rewriting.
_QUIET = ("-qq", "--no-header", "--no-summary", "-o", "timeout=0", "--assert=plain", "--capture=no")

_QUICK = PROFILES["quick"]
"""What a stranger's CI runs."""


def judge_by_suite(
    backend: str,
    options: dict[str, object],
    plan: Plan,
    report: Callable[[Verdict], None],
    progress: Callable[[str], None],
) -> None:
    """Let the suite, as a stranger runs it for *backend* with *options*, judge what *plan* names.

    Raises:
        SoundRunError: The backend does not pass the suite as it is.
        SourceChangedError: A module was edited meanwhile.
    """
    found = find_spec(_SUITE)
    assert found is not None
    assert found.origin is not None
    os.environ[VARIABLE] = json.dumps({"backend": backend, "options": options})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        scratch = Path(directory)
        ini = scratch / "pytest.ini"
        ini.write_text(_INI, encoding="utf-8")
        arguments = [found.origin, "-c", str(ini), "--rootdir", directory]
        arguments += ["-p", "statestores_conformance", "--import-mode=importlib"]
        _judge(arguments, Herd(plan, scratch, report, progress), scratch)


def judge_by_tests(
    tests: list[str],
    plan: Plan,
    report: Callable[[Verdict], None],
    progress: Callable[[str], None],
) -> None:
    """Let *tests*, as pytest takes them on its command line, judge what *plan* names.

    Raises:
        SoundRunError: They cannot be collected, or fail on the code as it is.
        SourceChangedError: A module was edited meanwhile.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        scratch = Path(directory)
        _judge(tests, Herd(plan, scratch, report, progress), scratch)


def _judge(arguments: list[str], herd: Herd, scratch: Path) -> None:
    settings.register_profile(
        _PROFILE,
        max_examples=_QUICK.examples,
        stateful_step_count=_QUICK.steps,
        phases=[Phase[phase] for phase in _QUICK.phases],
        derandomize=True,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    os.environ |= {
        SEED_VARIABLE: "1",
        SHARE_VARIABLE: str(_QUICK.share),
        "HYPOTHESIS_PROFILE": _PROFILE,
    }
    settings.load_profile(_PROFILE)
    plugins = [f"-p{plugin}" for plugin in _PLUGINS]
    code = pytest.main(
        [
            *arguments,
            *plugins,
            *_QUIET,
            "--basetemp",
            str(scratch / "p"),
        ],
        plugins=[herd],
    )
    if herd.error is not None:
        raise herd.error
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SoundRunError(f"pytest ended with {code!r}")
