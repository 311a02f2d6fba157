"""Which tests wait for a longer run: those of soaks, and the long ones, which repeat another test.

See docs/decisions/0141-what-a-run-of-the-tests-repeats.md.
"""

import os
from collections.abc import Iterator

import pytest

IS_SOAK = os.environ.get("STATESTORES_SOAK") == "1"
IS_LONG = IS_SOAK or os.environ.get("STATESTORES_LONG") == "1"
"""Whether long tests are run, as soaks do too."""

LEFT_OUT = frozenset(() if IS_SOAK else ("soak",) if IS_LONG else ("soak", "long"))
"""The markers of the tests that are not run."""

_TWINS = {
    "classic": ("consumer",),
    "leveldb": ("rocksdb", "memory"),
    "sqlite": ("rocksdb", "memory"),
}
"""Cases of a test that stand in for another one: what is above the engines is shown over one that
is on the disk, and what is above Kafka's two protocols over one of them. A test is `long` if it
differs from another in such a case alone."""

_OF_ENGINES = ("tests/backends/", "tests/conformance/", "tests/faults/", "tests/layout/")
"""Where tests are about engines themselves, and each of them has all."""


def is_named(config: pytest.Config) -> bool:
    """Return whether tests are asked for by their own names: a long one is run then."""
    return any("::" in each for each in config.args)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of *items* that repeat another one, and deselect what is not run."""
    identifiers = {item.nodeid for item in items}
    for item in items:
        if any(twin in identifiers for twin in _twins_of(item.nodeid)):
            item.add_marker("long")
    without = LEFT_OUT - {"long"} if is_named(config) else LEFT_OUT
    left_out = {item for item in items if any(map(item.get_closest_marker, without))}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _twins_of(identifier: str) -> Iterator[str]:
    """Yield the identifiers of the tests that *identifier* would repeat, if there are such."""
    name, bracket, case = identifier.partition("[")
    if bracket and not name.startswith(_OF_ENGINES):
        parts = case.removesuffix("]").split("-")
        for place, part in enumerate(parts):
            for twin in _TWINS.get(part, ()):
                yield f"{name}[{'-'.join([*parts[:place], twin, *parts[place + 1 :]])}]"
