"""What became of a mutant: one line of JSON each, so that a run that was stopped goes on."""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from importlib import resources
from pathlib import Path

from statestores_mutation.mutations import Mutation


class Outcome(Enum):
    """What the tests made of a mutant."""

    KILLED = "killed"
    """A test failed, did not end, or the process died."""

    SURVIVED = "survived"
    """Every test that reaches the line passed: a hole, or a change that nobody can see."""

    NOT_REACHED = "not reached"
    """No test runs the line. A hole as well."""

    UNDECIDED = "undecided"
    """No test failed before the budget of processor time was spent: judged again next time."""

    NOT_MADE = "not made"
    """The change cannot be made in a running process; it proves nothing."""


_WEIGHT = {
    Outcome.NOT_MADE: 0,
    Outcome.NOT_REACHED: 1,
    Outcome.UNDECIDED: 2,
    Outcome.SURVIVED: 3,
    Outcome.KILLED: 4,
}
"""Whose word counts when several judges have seen a mutant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome for one mutant."""

    key: str
    """`Mutation.key`."""
    module: str
    line: int
    outcome: Outcome
    by: str = ""
    """The test that failed, and the first line of its failure."""
    tests: int = 0
    """How many tests were run."""
    reaching: int = 0
    """How many tests reach the line."""
    seconds: float = 0.0
    """The processor time that it took."""

    @property
    def is_alive(self) -> bool:
        """Whether no test failed: it survived, was not reached, or is undecided."""
        return self.outcome not in (Outcome.KILLED, Outcome.NOT_MADE)

    def as_line(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps({**asdict(self), "outcome": self.outcome.value})


def verdict_on(mutation: Mutation, outcome: Outcome, **others: object) -> Verdict:
    """Return a verdict on *mutation*."""
    return Verdict(
        key=mutation.key,
        module=mutation.module,
        line=mutation.line,
        outcome=outcome,
        **others,  # type: ignore[arg-type]  # the fields of a verdict
    )


def read_verdicts(file: Path) -> dict[str, Verdict]:
    """Return what earlier runs have found, by key; a line that was cut off is left out."""
    found: dict[str, Verdict] = {}
    if not file.exists():
        return found
    for line in file.read_text("utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            fields = json.loads(line)
            fields["outcome"] = Outcome(fields["outcome"])
            found[fields["key"]] = Verdict(**fields)
    return found


def combined(judges: Iterable[dict[str, Verdict]]) -> dict[str, Verdict]:
    """Return what several judges have made of each mutant: whom one has killed is dead."""
    found: dict[str, Verdict] = {}
    for verdicts in judges:
        for key, verdict in verdicts.items():
            before = found.get(key)
            if before is None or _WEIGHT[verdict.outcome] > _WEIGHT[before.outcome]:
                found[key] = verdict
    return found


def known_equivalents() -> dict[str, str]:
    """Return the changes that nobody can see, by key, with the reason."""
    text = resources.files("statestores_mutation").joinpath("equivalent.toml").read_text("utf-8")
    entries = tomllib.loads(text).get("equivalent", [])
    return {entry["key"]: entry["because"] for entry in entries}


_COLUMNS = (
    "mutants",
    "killed",
    "equivalent",
    "survived",
    "not reached",
    "undecided",
    "not made",
    "score",
)


def markdown(verdicts: Iterable[Verdict], equivalents: dict[str, str]) -> str:
    """Return the table by module, and after it every survivor."""
    listed = list(verdicts)
    lines = [
        f"| module | {' | '.join(_COLUMNS)} |",
        "|---|" + "--:|" * len(_COLUMNS),
    ]
    modules = sorted({verdict.module for verdict in listed})
    lines += [
        _row(f"`{name}`", [each for each in listed if each.module == name], equivalents)
        for name in modules
    ]
    lines.append(_row("**all**", listed, equivalents))
    survivors = [
        verdict for verdict in listed if verdict.is_alive and verdict.key not in equivalents
    ]
    if survivors:
        lines += ["", "Survivors:", ""]
        lines += [
            f"* `{verdict.key}` (line {verdict.line}, {verdict.outcome.value}, "
            f"{verdict.reaching} tests reach it)"
            for verdict in sorted(survivors, key=lambda each: (each.module, each.line))
        ]
    return "\n".join(lines) + "\n"


def score(verdicts: Iterable[Verdict], equivalents: dict[str, str]) -> float:
    """Return the share of the mutants killed, of those that were made and can be seen."""
    counted = [
        verdict
        for verdict in verdicts
        if verdict.outcome is not Outcome.NOT_MADE
        and (verdict.outcome is Outcome.KILLED or verdict.key not in equivalents)
    ]
    killed = sum(verdict.outcome is Outcome.KILLED for verdict in counted)
    return killed / len(counted) if counted else 1.0


def _row(name: str, verdicts: list[Verdict], equivalents: dict[str, str]) -> str:
    alive = [verdict for verdict in verdicts if verdict.is_alive]
    equivalent = sum(verdict.key in equivalents for verdict in alive)
    alive = [verdict for verdict in alive if verdict.key not in equivalents]
    counts = [
        len(verdicts),
        sum(verdict.outcome is Outcome.KILLED for verdict in verdicts),
        equivalent,
        sum(verdict.outcome is Outcome.SURVIVED for verdict in alive),
        sum(verdict.outcome is Outcome.NOT_REACHED for verdict in alive),
        sum(verdict.outcome is Outcome.UNDECIDED for verdict in alive),
        sum(verdict.outcome is Outcome.NOT_MADE for verdict in verdicts),
    ]
    cells = " | ".join(f"{count:,}" for count in counts)
    judged = len(verdicts) - equivalent - counts[-1]
    reached = f"{score(verdicts, equivalents):.1%}" if judged else "none"
    return f"| {name} | {cells} | {reached} |"
