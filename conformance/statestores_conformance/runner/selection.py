"""Which tests of a run are wanted: those of some requirements, or those that did not pass before.

Such a run is for whoever mends a backend. It judges no level: for that, all tests are run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from statestores.errors import InvalidArgumentError
from statestores_conformance.report.judging import TestOutcome
from statestores_conformance.report.model import Report
from statestores_conformance.requirements import load_requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A choice of tests; without anything, all of them."""

    requirements: frozenset[str] | None = None
    """Tests that cite one of these."""

    tests: frozenset[str] | None = None
    """Tests of these names."""

    words: str = ""
    """What the report says of the choice."""

    @classmethod
    def of(cls, requirements: Iterable[str], since_last: Report | None) -> Self:
        """Choose the tests of *requirements*, and of these the ones that *since_last* lacks.

        Raises:
            InvalidArgumentError: No test of the suite cites one of them, or nothing is left.
        """
        wanted = frozenset(requirements)
        cited = {row.id for row in load_requirements() if row.level is not None}
        if wanted - cited:
            unknown = ", ".join(sorted(wanted - cited))
            raise InvalidArgumentError(
                f"the suite has no test of {unknown}; requirements.json lists what it tests"
            )
        tests = None
        words = [f"the tests of {', '.join(sorted(wanted))}"] if wanted else []
        if since_last is not None:
            tests = frozenset(each.test for each in (*since_last.failures, *since_last.timeouts))
            if not tests:
                raise InvalidArgumentError(
                    "no test failed in the last report; run the suite without it"
                )
            words.append(f"the {len(tests)} that did not pass last time")
        return cls(requirements=wanted or None, tests=tests, words=", and of these ".join(words))

    def takes(self, test: TestOutcome) -> bool:
        """Return whether *test* is wanted."""
        cited = self.requirements is None or not self.requirements.isdisjoint(test.requirements)
        return cited and (self.tests is None or test.test in self.tests)
