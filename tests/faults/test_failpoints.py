"""Failpoints: what they cost is one look, and every one of them is really on somebody's way."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from lives import logged_life, plain_life, staged_life

from statestores.errors import InvalidArgumentError
from statestores.failpoints import FAILPOINTS, arm, disarm, reach
from statestores_conformance.many_cases import for_each

_OF_TASKS = (
    *("task.", "sink.", "kafka.", "objects.", "operator.", "reset.", "copies.", "reshard."),
    "native.",
)
"""Reached, and died at, in ``tests/tasks``, ``tests/processing``, ``tests/kafka``,
``tests/resharding``, ``tests/object_log``, ``tests/spark`` and ``tests/logged_store``."""


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """Leave nothing armed for the next test."""
    yield
    disarm()


def test_an_unarmed_failpoint_does_nothing() -> None:
    """Also while another one is armed."""
    reached: list[str] = []
    reach("snapshot.durable")
    arm("json.written", lambda: reached.append("json.written"))
    reach("snapshot.durable")

    assert reached == []


def test_a_failpoint_acts_at_the_time_that_was_asked_for() -> None:
    """Neither before nor after; without a number, every time."""
    once: list[int] = []
    always: list[int] = []
    arm("json.written", lambda: once.append(1), at=3)
    arm("json.renamed", lambda: always.append(1))
    for _ in range(5):
        reach("json.written")
        reach("json.renamed")

    assert (len(once), len(always)) == (1, 5)


def test_an_action_may_raise() -> None:
    """What it raises comes out where the failpoint is."""

    def fail() -> None:
        raise OSError("here")

    arm("json.written", fail)
    with pytest.raises(OSError, match="here"):
        reach("json.written")


@for_each(("name", "at"), [("json.wirtten", None), ("json.written", 0)])
def test_a_mistyped_failpoint_is_refused(name: str, at: int | None) -> None:
    """A name that nobody reaches, or a time that never comes, would make tests that cannot fail."""
    with pytest.raises(InvalidArgumentError):
        arm(name, list, at=at)


def test_every_failpoint_is_reached(tmp_path: Path) -> None:
    """A place that moved away, or a name that was forgotten, is found here."""
    reached: Counter[str] = Counter()
    for name in FAILPOINTS:
        arm(name, partial(reached.update, [name]))

    def say(word: str, number: int) -> None:
        """Say nothing: nobody is killed."""

    for _ in range(2):  # the second life finds a changelog, and tears its tail
        logged_life(tmp_path / "logged", say, backend="sqlite")
    staged_life(tmp_path / "staged", say, first=1)
    plain_life()

    missing = sorted(FAILPOINTS.keys() - reached.keys())
    assert [name for name in missing if not name.startswith(_OF_TASKS)] == []
