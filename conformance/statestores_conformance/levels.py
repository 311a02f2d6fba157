"""The levels of conformance, and which of them a test belongs to.

A level is reached when all before it are, and no test of it failed. A part of the suite says where
it belongs with a marker on its class, which its tests may override::

    @pytest.mark.level("concurrent")
    class EngineThreadTests(EngineFixtures): ...

An unmarked part has the level of the class that it is nested in: `engine` inside `EngineTests`,
else `store`. A test at these two that asks for ``persistent_engine`` or ``persistent_stores`` is
`durable`: it cannot be run without persistence.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from statestores.spi import Capabilities

_PERSISTENT_FIXTURES = frozenset({"persistent_engine", "persistent_stores"})


@dataclass(frozen=True, slots=True)
class Level:
    """One step of conformance."""

    name: str
    """Its name on a command line, in a report and on a badge."""

    meaning: str
    """What a user may rely on, in one sentence."""

    needs: tuple[str, ...] = ()
    """The capabilities without which it cannot be reached."""


ENGINE = Level("engine", "an ordered map of bytes that applies batches atomically")
STORE = Level("store", "every kind of store keeps its contract while its process lives")
DURABLE = Level(
    "durable", "what was committed is found again after reopening", ("persistent", "durable_commit")
)
CONCURRENT = Level("concurrent", "threads read whole commits while the owner writes")
CRASH_PROOF = Level("crash-proof", "a process killed at any moment leaves exactly a commit")
FAULT_PROOF = Level(
    "fault-proof",
    "failing calls and damaged files are errors, and never wrong data",
    ("detects_corruption",),
)

LEVELS = (ENGINE, STORE, DURABLE, CONCURRENT, CRASH_PROOF, FAULT_PROOF)
"""All levels, the lowest first."""

LEVEL_NAMES = tuple(level.name for level in LEVELS)


def rank_of(name: str) -> int:
    """Return the place of the level *name*, counted from 0 for the lowest.

    Raises:
        ValueError: There is no level of that name.
    """
    return LEVEL_NAMES.index(name)


def missing_promises(level: Level, capabilities: Capabilities) -> list[str]:
    """Return what *level* needs but *capabilities* do not promise."""
    return [promise for promise in level.needs if not getattr(capabilities, promise)]


def level_of(item: pytest.Item) -> str:
    """Return the name of the level that a test belongs to."""
    marked = _nearest_mark(item)
    fixtures = getattr(item, "fixturenames", ())
    if marked in (ENGINE.name, STORE.name) and not _PERSISTENT_FIXTURES.isdisjoint(fixtures):
        return DURABLE.name
    return marked


def lowest_rank_in(collected: pytest.Class) -> int:
    """Return a rank that no test of the class *collected* is below, before it is looked into.

    It is that of the class, or of a part or a test in it that says a lower one itself. A name that
    is no level counts as the lowest: whoever looks into the class complains of it.
    """
    inner = _said_in(collected.obj)  # pytest marks a node when its object is asked for
    own = _nearest_mark(collected)
    return min(rank_of(name) if name in LEVEL_NAMES else 0 for name in (own, *inner))


def _said_in(part: object) -> Iterator[str]:
    """Yield the levels that the tests and the parts in the class *part* say themselves."""
    for name in dir(part):
        if not name.startswith(("Test", "test")):
            continue
        inner = getattr(part, name)
        for said in inner.__mro__ if isinstance(inner, type) else (inner,):
            marks = vars(said).get("pytestmark", [])
            yield from (mark.args[0] for mark in marks if mark.name == "level")
        if isinstance(inner, type):
            yield from _said_in(inner)


def _nearest_mark(item: pytest.Item | pytest.Class) -> str:
    """Return the level of the nearest marker; of several on one class the latest in the hierarchy.

    `pytest.Item.get_closest_marker` would take that of a class's base before its own.
    """
    for node in item.iter_parents():
        marks = [mark for mark in node.own_markers if mark.name == "level"]
        if marks:
            (name,) = marks[-1].args
            if name not in LEVEL_NAMES:
                known = ", ".join(LEVEL_NAMES)
                raise pytest.UsageError(
                    f"{node.nodeid}: no level is called {name!r}; known: {known}"
                )
            return str(name)
    return STORE.name
