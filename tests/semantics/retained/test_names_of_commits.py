"""What is remembered of the names that commits have given, and what is not."""

from collections.abc import Iterator
from typing import Any

import pytest

from statestores.failpoints import arm, disarm
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.rows.layout import END, HISTORY
from statestores.spi import Durability, Engine, Window
from statestores_conformance.subjects.faulty_engine import KeptOpen

WINDOW = Window("w", retention_ms=64_000, window_size_ms=10)
"""A span has a second."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Return an engine of a test."""
    with load_backend("memory").open("unused") as engine:
        yield engine


def opened(engine: Engine, **options: Any) -> Any:
    """Open a store, which leaves the engine open."""
    return open_on_engine(KeptOpen(engine), WINDOW, durability=Durability.PROCESS_CRASH, **options)


def put(store: Any, numbers: range, start_ms: int, value: bytes = b"v") -> None:
    """Put windows of a start, and commit."""
    for number in numbers:
        store.put(b"%04d" % number, value, start_ms)
    store.commit({})


@pytest.mark.spec("WIN-9", "COM-43")
def test_two_interrupts_of_one_commit_lose_no_window(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second came while the first one was dealt with, as a supervisor's after the terminal's.

    What was known of the start was away for the commit, and nobody brought it back: the commit that
    was tried again had only its own windows there, and a range took them for all there are.
    """

    def interrupt() -> None:
        raise KeyboardInterrupt

    store = opened(engine)
    put(store, range(40), 1_000)
    put(store, range(40), 2_000)
    assert len(list(store.fetch_range(b"0000", 2_000))) == 1
    for number in range(40, 80):
        store.put(b"%04d" % number, b"v", 2_000)
    arm("commit.apply.before", interrupt)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(store, "_forget_cached", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.commit({})
    finally:
        disarm()
    store.commit({})

    for key in (b"0000", b"0079"):
        assert [each.start_ms for each in store.fetch_range(key, 2_000)] == [2_000]
        assert [each.start_ms for each in opened(engine).fetch_range(key, 2_000)] == [2_000]


@pytest.mark.spec("LAY-20")
def test_a_name_that_is_given_alone_takes_no_memory(engine: Engine) -> None:
    """A few new windows in each large commit have a row each, and are not remembered.

    They were counted as if they were, again with each commit that put them: soon all other names
    were forgotten for them, and each had a second row in the index.
    """
    store = opened(engine, read_cache_bytes=20_000)
    put(store, range(1), 1_000)
    put(store, range(40), 3_000)
    for _ in range(100):
        put(store, range(43), 3_000)

    assert sum(1 for _ in engine.scan(HISTORY, END)) == 1 + 1 + 3  # alone, a group, alone
    assert [each.start_ms for each in store.fetch_range(b"0042")] == [3_000]
