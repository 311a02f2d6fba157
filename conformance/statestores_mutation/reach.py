"""What the run of the tests on the sound code has found out, and a file in which it is kept."""

import hashlib
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LEFT_OUT = (
    "site-packages",
    sys.base_prefix,
    "<",
    *(
        "statestores_mutation/" + name
        for name in (
            "__main__",
            "children",
            "drawing",
            "exchange",
            "herd",
            "judging",
            "reach",
            "sources",
            "verdicts",
        )
    ),
)
"""Neither what others wrote, nor what judges with the help of a sound run."""


@dataclass(frozen=True, slots=True)
class TestReach:
    """What one test does."""

    processor_s: float
    """The processor time it takes, that of processes it waits for included."""
    seconds: float
    """How long it takes, waiting included."""
    marks: frozenset[int]
    """See `statestores_mutation.probes`."""


@dataclass(slots=True)
class SoundRun:
    """What is known of every test."""

    tests: dict[str, TestReach] = field(default_factory=dict)
    """By the identifiers of the tests that pass."""

    failures: list[str] = field(default_factory=list)
    """What failed, and with what: these tests can judge nothing."""

    modules: list[str] = field(default_factory=list)
    """What the tests have imported: a fork need not do it again."""

    processor_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {
            "tests": {
                name: [test.processor_s, test.seconds, sorted(test.marks)]
                for name, test in self.tests.items()
            },
            "failures": self.failures,
            "modules": self.modules,
            "processor_s": self.processor_s,
        }

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> "SoundRun":
        """Return what `as_json` was made of."""
        tests = {
            name: TestReach(processor_s, seconds, frozenset(marks))
            for name, (processor_s, seconds, marks) in found["tests"].items()
        }
        return cls(tests, found["failures"], found["modules"], found["processor_s"])


def digest(tests: Iterable[str], changed: Iterable[str]) -> str:
    """Return what a sound run depends on: *tests*, *changed* modules, and all source that is ours.

    What a test reads by itself is not seen, nor a change of an installed library.
    """
    found = hashlib.sha256(repr((sys.version, sorted(tests), sorted(changed))).encode())
    files = {getattr(module, "__file__", None) or "<" for module in list(sys.modules.values())}
    for file in sorted(files):
        if file.endswith(".py") and not any(part in file for part in _LEFT_OUT):
            found.update(Path(file).name.encode())
            found.update(Path(file).read_bytes())
    return found.hexdigest()


def read_sound_run(file: Path, key: str) -> SoundRun | None:
    """Return the sound run that *file* keeps, if it is of *key*."""
    if not file.exists():
        return None
    found = json.loads(file.read_text("utf-8"))
    return SoundRun.of_json(found) if found["key"] == key else None


def write_sound_run(file: Path, key: str, run: SoundRun) -> None:
    """Keep *run* in *file*."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(json.dumps({"key": key, **run.as_json()}), encoding="utf-8")
    new.replace(file)
