"""What of the suite is not collected: the kit, and what a built-in backend has not promised.

Such a test would be set up, skipped and reported in every run, and no run could ever run it. A
stranger's run still skips it by name, and so do the reports (`make reports`).
"""

from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import settings
from long_runs import IS_LONG, is_named

from statestores.errors import MissingDriverError
from statestores.registry import load_backend
from statestores.spi import Capabilities
from statestores.spi.kinds import KEY_VALUE
from statestores_conformance.runner.profiles import PROFILES

collect_ignore = ["kit"]

_BUILT_IN = "tests/conformance/test_backends.py::"

_OF_OTHER_ENGINES = ("::TestLevelDB", "::TestSQLite")
_OF_KINDS = frozenset(
    (
        "TestSessionStore",
        "TestTimeToLive",
        "TestTimestampedKeyValueStore",
        "TestVersionedStore",
        "TestWindowStore",
    )
)
"""The chapters about kinds of stores whose rows are values of the engine's pairs: they see nothing
of an engine but what the others prove, so they are proved over one in memory and one on the disk,
and over the rest in a long run."""

_NEEDED = {
    "persistent_engine": ("persistent",),
    "persistent_stores": ("persistent",),
    "checking": ("persistent", "detects_corruption"),
    "checkpointed": ("native_checkpoint",),
    "ingesting": ("bulk_ingest",),
}
"""What an engine must have promised, for each fixture of the suite that skips without it."""


@pytest.fixture(scope="class")
def examples_of_a_quick_run() -> Iterator[None]:
    """Draw as many examples as `make mutants` does, which catches every mutant with them.

    A profile that was chosen, as a soak run chooses one, keeps its own number.
    """
    chosen = settings.get_current_profile_name()
    if chosen not in {"default", "ci"}:
        yield
        return
    profile = settings.get_profile(chosen)
    settings.register_profile("quick", profile, max_examples=PROFILES["quick"].examples)
    settings.load_profile("quick")
    yield
    settings.load_profile(chosen)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str) -> list[pytest.Item] | None:
    """Leave the chapters about kinds to long runs where another engine has them."""
    repeats = name in _OF_KINDS and collector.nodeid.endswith(_OF_OTHER_ENGINES)
    return [] if repeats and not IS_LONG and not is_named(collector.config) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of those chapters where they are made: `-m long` is to find them.

    So are the kills of a process that has another kind of store than the plainest.
    """
    if item.nodeid.startswith(_BUILT_IN):
        _, engine, chapter, *_ = item.nodeid.split("::")
        of_kinds = chapter in _OF_KINDS or (
            chapter == "TestCrashes" and _kind_of(item) != KEY_VALUE.name
        )
        if f"::{engine}" in _OF_OTHER_ENGINES and of_kinds:
            item.add_marker("long")


def _kind_of(item: pytest.Item) -> str:
    """Return the kind of store that a test is about; the plainest if it is about none."""
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return str(parameters.get("kind", KEY_VALUE.name))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what would only be skipped, from what the class of each engine says of it."""
    left_out = {item for item in items if item.nodeid.startswith(_BUILT_IN) and _is_idle(item)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _is_idle(item: pytest.Item) -> bool:
    """Return whether *item* asks for a fixture that its backend has to skip."""
    assert isinstance(item, pytest.Function)
    fixtures = set(item.fixturenames)
    backend = next(node.obj for node in item.listchain() if isinstance(node, pytest.Class))
    if "option_sets" in fixtures and not backend.other_options:
        return True
    promised = _promises(backend.name)
    if promised is not None and not promised.persistent and _reopens(item):
        return True
    return promised is not None and any(
        not getattr(promised, promise)
        for fixture in fixtures & _NEEDED.keys()
        for promise in _NEEDED[fixture]
    )


def _reopens(item: pytest.Function) -> bool:
    """Return whether *item* goes on, after what it is about, in a store that is opened again."""
    if item.originalname == "test_reopening_changes_no_answer":
        return True
    return hasattr(item, "callspec") and item.callspec.params.get("going_on") == "reopen"


@cache
def _promises(backend: str) -> Capabilities | None:
    """Return what the class of *backend* says; ``None`` without its driver, which is a skip."""
    try:
        found: object = getattr(load_backend(backend), "capabilities", None)
    except MissingDriverError:
        return None
    return found if isinstance(found, Capabilities) else None
