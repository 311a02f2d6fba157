"""The verdict when the suite meets a mutant."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from statestores_mutants.registry import Mutant

_LAST_LINES = 15


class Outcome(Enum):
    """What the suite made of a mutant."""

    CAUGHT = "caught"
    """A test failed that cites a requirement which the mutant was expected to break."""

    CAUGHT_ELSEWHERE = "caught elsewhere"
    """A test failed, but it cites other requirements: the mutant, or a citation, is not right."""

    PASSED = "passed"
    """Every test passed: right for a sound base, and a hole in the suite for a mutant."""

    OWN_MISTAKE = "own mistake"
    """The mutant broke down by an error of its own, which proves nothing."""

    NOT_RUN = "not run"
    """The suite did not come to run, or did not come to an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome for one mutant, and what led to it."""

    mutant: Mutant
    outcome: Outcome
    test: str = ""
    """The test that failed, by its name within the author's class."""
    cited: tuple[str, ...] = ()
    """The requirements that it cites."""
    message: str = ""
    """The first line of its failure, or the last ones of a process that did not run."""
    tests: int = 0
    """How many tests were run."""
    seconds: float = 0.0

    @property
    def proves(self) -> bool:
        """Whether it is what it should be: a mutant caught, a base passed."""
        good = Outcome.CAUGHT if self.mutant.expected else Outcome.PASSED
        return self.outcome is good

    def as_json(self) -> dict[str, object]:
        """Return it in a form that can be written as JSON."""
        fields = {key: value for key, value in asdict(self).items() if key != "mutant"}
        return {
            "mutant": self.mutant.name,
            "theme": self.mutant.theme,
            "wrong": self.mutant.wrong,
            "imitates": self.mutant.imitates,
            "expected": sorted(self.mutant.expected),
            **fields,
            "outcome": self.outcome.value,
        }


def verdict_of(
    mutant: Mutant, found: dict[str, Any] | None, output: str, seconds: float
) -> Verdict:
    """Return the verdict on what the process of *mutant* has left: its result, and its output."""
    if found is None:
        message = "\n".join(output.splitlines()[-_LAST_LINES:]) or "no result, and no output"
        return Verdict(mutant=mutant, outcome=Outcome.NOT_RUN, message=message, seconds=seconds)
    catch = found["catch"]
    if catch is None:
        return Verdict(mutant=mutant, outcome=Outcome.PASSED, tests=found["tests"], seconds=seconds)
    return Verdict(
        mutant=mutant,
        outcome=_outcome(mutant, catch),
        test=catch["test"],
        cited=tuple(catch["cited"]),
        message=catch["message"],
        tests=found["tests"],
        seconds=seconds,
    )


def _outcome(mutant: Mutant, catch: dict[str, Any]) -> Outcome:
    """Return what the failure of a test says about *mutant*."""
    if catch["own_mistake"]:
        return Outcome.OWN_MISTAKE
    met = mutant.expected.intersection(catch["cited"])
    return Outcome.CAUGHT if met else Outcome.CAUGHT_ELSEWHERE
