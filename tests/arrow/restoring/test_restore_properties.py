"""Whatever a store went through, a restore in any batches, interrupted anywhere, gives it back."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.arrow import Progress, read_snapshot, restore, write_snapshot
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Durability, KeyValue, TopicPartition, Versioned

INPUT = TopicPartition("input", 0)

_KEYS = st.sampled_from([b"", b"a", b"a\x00", b"a\x00\xff", b"b", b"\xff"])
_VALUES = st.none() | st.binary(max_size=2)
_PUT = st.tuples(st.just("put"), _KEYS, _VALUES, st.integers(0, 60))
_STEPS = st.lists(
    st.one_of(_PUT, _PUT, _PUT, _PUT, st.just(("commit",)), st.just(("clear",))),
    min_size=1,
    max_size=60,
)


class _Interrupted(Exception):  # noqa: N818  # it is no failure of anybody
    pass


class _Interruptions:
    """A progress callback that gives up after a number of calls, each number once."""

    def __init__(self, after: list[int]) -> None:
        self._after = after
        self._calls = 0

    def __call__(self, progress: Progress) -> None:
        self._calls += 1
        if self._after and self._calls > self._after[0]:
            self._after.pop(0)
            self._calls = 0
            raise _Interrupted


def _open(specification: KeyValue[bytes, bytes] | Versioned[bytes, bytes]) -> Any:
    engine = load_backend("memory").open("unused")
    return open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH)


def _live_through(store: Any, changelog: Any, log: TopicPartition, steps: list[Any]) -> None:
    """Apply *steps* to *store*, logged as a store with a changelog is."""
    for number, step in enumerate(steps):
        if step[0] == "put":
            arguments = step[1:] if store.specification.kind == "versioned" else step[1:3]
            store.put(*arguments)
        elif step[0] == "commit":
            store.advance_position({INPUT: number})
            store.commit({log: changelog.record(store)})
        else:
            store.truncate()
            store.commit({log: changelog.record_clear()})
    store.commit({log: changelog.record(store)})


@pytest.mark.spec("SNP-10", "SNP-11", "SNP-12", "SNP-14", "COM-29", "COM-32")
@pytest.mark.parametrize(
    "specification",
    [KeyValue("live"), *(Versioned("live", history_retention_ms=r) for r in (0, 7, 1_000))],
    ids=["key-value", "retention 0", "retention 7", "retention 1000"],
)
@given(
    before=_STEPS,
    after=_STEPS,
    batch_rows=st.integers(1, 9),
    interruptions=st.lists(st.integers(0, 12), max_size=4),
    with_snapshot=st.booleans(),
    headless=st.booleans(),
)
def test_a_restore_gives_the_live_store(
    specification: KeyValue[bytes, bytes] | Versioned[bytes, bytes],
    make_changelog: Callable[[str], Any],
    answers: Callable[[Any], dict[str, Any]],
    before: list[Any],
    after: list[Any],
    batch_rows: int,
    interruptions: list[int],
    with_snapshot: bool,
    headless: bool,
) -> None:
    """From a snapshot in the middle, from the changelog alone, or from both."""
    log = TopicPartition("live-changelog", 0)
    changelog = make_changelog(specification.kind)
    with tempfile.TemporaryDirectory() as directory, _open(specification) as live:
        _live_through(live, changelog, log, before)
        snapshot = None
        if with_snapshot:
            info = write_snapshot(live, Path(directory), batch_rows=5, rows_per_file=10)
            snapshot = read_snapshot(info.path)
            snapshot.verify()
        _live_through(live, changelog, log, after)
        if snapshot is not None and headless:
            changelog.forget_until(snapshot.offset + 1)
        with _open(specification) as copy:
            callback = _Interruptions(interruptions)
            for _ in range(len(interruptions) + 1):
                try:
                    restore(
                        copy,
                        snapshot=snapshot,
                        changelog=changelog,
                        batch_rows=batch_rows,
                        progress=callback,
                    )
                except _Interrupted:
                    assert copy.uncommitted_bytes == 0

            assert answers(copy) == answers(live)
