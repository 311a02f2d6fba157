"""What of the suite is not collected: the kit, what was not promised, and what repeats a test.

What a built-in backend has not promised would be set up, skipped and reported in every run, and no
run could ever run it. A stranger's run still skips it by name, and so do the reports (`make
reports`). What repeats a test is left to long runs (docs/decisions/0141).
"""

from collections.abc import Iterable, Iterator
from functools import cache
from types import FunctionType

import pytest
from hypothesis import settings
from long_runs import IS_LONG, is_named

from statestores.errors import MissingDriverError
from statestores.registry import load_backend
from statestores.spi import Capabilities
from statestores.spi.kinds import KEY_VALUE, KINDS, TIMESTAMPED_KEY_VALUE, WINDOW
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
of an engine but what the others prove."""

_OF_ROWS = _OF_KINDS | {
    "TestRetentionOnEngine",
    "TestSessionRemoval",
    "TestTimeToLiveOnEngine",
    "TestWindowRemoval",
}
"""These, and those about what such kinds leave in an engine: they are proved over one in memory and
one on the disk, and over the rest in a long run."""

_KEY_VALUE = "TestKeyValueStore"

_IN_KIND = frozenset(("TestModel", "TestReopening"))
_IN_KEY_VALUE = _IN_KIND | {
    "TestFacadesInThreads",
    "TestInterleavings",
    "TestIterators",
    "TestReads",
    "TestReadsOfFacades",
}
_ASKED = frozenset(("test_every_answer_is_the_memory_engines", "test_reopening_changes_no_answer"))
"""What of a kind's chapter an engine on the disk is asked: any sequence of operations against the
model, all answers against those over the memory engine, and whatever is opened again. The rest is
the same code over the memory engine, which is asked all of it, and over what the chapter about
engines proves. A key-value store's iterators are the engine's own, so their readers are asked more:
all of it over RocksDB, and these parts over the others."""

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
def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> list[pytest.Item] | None:
    """Leave what repeats other tests of the suite to long runs: no item is made of it."""
    if IS_LONG or is_named(collector.config) or not collector.nodeid.startswith(_BUILT_IN):
        return None
    if isinstance(obj, FunctionType):
        code = obj.__code__
        asked = code.co_varnames[: code.co_argcount]
        return [] if _repeats_in_chapter(collector.nodeid, name, asked) else None
    return [] if name in _OF_ROWS and collector.nodeid.endswith(_OF_OTHER_ENGINES) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark those tests where they are made: `-m long` is to find them."""
    if item.nodeid.startswith(_BUILT_IN):
        assert isinstance(item, pytest.Function)
        chapter, _, name = item.nodeid.partition("[")[0].rpartition("::")
        if _repeats_in_chapter(chapter, name, item.fixturenames) or _is_another_kind(item):
            item.add_marker("long")


def _repeats_in_chapter(chapter: str, name: str, fixtures: Iterable[str]) -> bool:
    """Return whether the test *name* of *chapter* shows of one more engine what others show.

    Args:
        chapter: The identifier of its class.
        name: Its name.
        fixtures: What it asks for.
    """
    _, engine, *chapters = chapter.split("::")
    is_other = f"::{engine}" in _OF_OTHER_ENGINES
    if not chapters or (is_other and chapters[0] in _OF_ROWS):
        return bool(chapters)
    if engine == "TestRocksDB" and chapters[0] in _OF_KINDS:
        kept = _IN_KIND
    elif is_other and chapters[0] == _KEY_VALUE:
        kept = _IN_KEY_VALUE
    else:
        return False
    is_asked = name in _ASKED or not kept.isdisjoint(chapters)
    return not is_asked and _NEEDED.keys().isdisjoint(fixtures)


def _is_another_kind(item: pytest.Function) -> bool:
    """Return whether *item* kills, or has calls fail, below a kind that goes another's way.

    Over LevelDB and SQLite each goes that of the plainest. Over RocksDB, processes with each kind
    are killed at failpoints, and at random those with one of each way to lay out rows.
    """
    _, engine, chapter, *_ = item.nodeid.split("::")
    case = f"{item.callspec.id}-" if hasattr(item, "callspec") else ""
    if f"::{engine}" in _OF_OTHER_ENGINES and chapter in {"TestCrashes", "TestFaults"}:
        return any(case.startswith(f"{name}-") for name in KINDS if name != KEY_VALUE.name)
    is_random = item.originalname == "test_a_killed_process_leaves_exactly_a_commit"
    return is_random and case.startswith((f"{TIMESTAMPED_KEY_VALUE.name}-", f"{WINDOW.name}-"))


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
