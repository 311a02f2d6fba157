"""What one run found out: a table of requirements, the levels, and what it takes to repeat it."""

from dataclasses import dataclass, field
from enum import StrEnum

FORMAT_VERSION = 1
"""Version of the JSON form. A new field does not raise it; one that changes or goes does."""


class Status(StrEnum):
    """The verdict on a requirement, or on a level."""

    PROVED = "proved"
    """At least one test found it true, and none found it false. Of a level: reached."""

    FAILED = "failed"
    """At least one test found it false."""

    TIMED_OUT = "timed out"
    """None found it false, and one gave no sign of life for so long that its process was killed.

    That disproves nothing, since the machine may be loaded, and proves nothing either."""

    NOT_PROMISED = "not promised"
    """The backend says that it does not do this, and refuses when asked to."""

    NOT_RUN = "not run"
    """Nothing was found out; the reason is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One test that failed, or that did not come to an end."""

    test: str
    """Its name, in parts that pytest's ``-k`` accepts."""

    level: str
    """The level that it belongs to."""

    requirements: tuple[str, ...]
    """What it would have proved."""

    step: str
    """``setup``, ``call`` or ``teardown``; if the process died or hung, also the line."""

    reason: str
    """What happened, in one line."""

    detail: str = ""
    """The end of the traceback, or of what the dead process said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementResult:
    """One row of the table."""

    id: str
    """The number in the specification."""

    obligation: str
    """``MUST``, ``SHOULD`` or ``MAY``."""

    level: str
    """The lowest level at which a test cites it."""

    text: str
    """Its first sentence."""

    status: Status
    """What was found."""

    reason: str = ""
    """Why it failed, is not promised or was not run; or what was left out of the proof."""

    passed: int = 0
    """How many tests found it true."""

    failures: tuple[str, ...] = ()
    """The tests that found it false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """What was found about one level on its own, whatever the lower ones showed."""

    name: str
    status: Status
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that one run found out."""

    backend: str
    """The backend, as named on the command line."""

    level: str | None
    """The highest level reached: it and all below it are proved. ``None``: not even the lowest."""

    stopped_by: str
    """Why it is not a higher one; empty at the highest."""

    levels: tuple[LevelResult, ...]
    """Each level, the lowest first."""

    requirements: tuple[RequirementResult, ...]
    """Each requirement that the suite cites, in the order of the specification."""

    failures: tuple[Failure, ...]
    """Every test that failed, in the order of the levels."""

    timeouts: tuple[Failure, ...] = ()
    """Every test that did not come to an end, likewise."""

    selection: str = ""
    """Which tests were asked for, in words, if not all of the levels: then no level is judged."""

    problems: tuple[str, ...] = ()
    """What went wrong outside any test, as sentences."""

    capabilities: dict[str, bool] = field(default_factory=dict)
    """What the backend declares."""

    options: dict[str, str] = field(default_factory=dict)
    """The options that it was opened with."""

    asked_level: str
    """The highest level whose tests were run."""

    profile: str
    """How hard the run tried."""

    seed: int
    """The seed of everything random."""

    seconds: float
    """How long the run took."""

    tests: int
    """How many tests there are at the requested levels."""

    spec_version: int
    """The version of the specification that was tested."""

    statestores_version: str
    python: str
    platform: str

    @property
    def holds(self) -> bool:
        """Whether the tests that were asked for have come to an end, and none of them failed."""
        return not (self.failures or self.timeouts or self.problems)

    @property
    def conforms(self) -> bool:
        """Whether nothing failed and everything that was asked for was run or is not promised."""
        return (
            self.holds
            and not self.selection
            and self.level is not None
            and all(
                level.status in (Status.PROVED, Status.NOT_PROMISED)
                for level in self.levels
                if not _is_above(level.name, self.asked_level, self.levels)
            )
        )

    def count(self, status: Status) -> int:
        """Return how many requirements have *status*."""
        return sum(row.status is status for row in self.requirements)

    def with_status(self, status: Status) -> list[RequirementResult]:
        """Return the requirements that have *status*."""
        return [row for row in self.requirements if row.status is status]


def _is_above(name: str, other: str, levels: tuple[LevelResult, ...]) -> bool:
    """Return whether the level *name* is higher than *other*."""
    names = [level.name for level in levels]
    return names.index(name) > names.index(other)
