"""A second interrupt comes while the first is handled: the store still knows what is in doubt.

A supervisor sent two signals while a commit waited for the disk, and the handlers of both raised.
Python raises the second one at the next call, which was made to note that the commit is in doubt.
So nothing was noted: `rollback()` was accepted, the commit was there, and the store showed its
content beside the offset of the commit before.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from interrupts import Interrupted, two_interrupts

import statestores as ss
from statestores import arrow as ssa
from statestores.changelog import ChangelogReader
from statestores.errors import CommitConflictError, CommitInDoubtError
from statestores.failpoints import arm, disarm
from statestores.semantics import open_on_engine
from statestores_memory import MemoryEngine

INPUT = ss.TopicPartition("input", 0)


@contextmanager
def interrupted_at(failpoint: str, times: int = 2) -> Iterator[None]:
    """Interrupt the block at *failpoint*, and what handles that, *times* in all."""
    with two_interrupts(times) as send:
        arm(failpoint, send)
        try:
            with pytest.raises(Interrupted):
                yield
        finally:
            disarm()


@pytest.mark.spec("COM-43")
def test_a_commit_that_the_engine_has_is_known() -> None:
    """Also after another put, whoever is asked first, and where a third one ends what settles it.

    A put that came next was in the batch then, which showed the pending writes as they were: the
    engine had not all of that, so `rollback()` was accepted, and the commit was there.
    """
    asked: list[tuple[Callable[[Any], object], bool]] = [
        (lambda store: store.committed_offset(INPUT), False),
        (lambda store: store.put(b"later", b"v"), True),
    ]
    for times, (ask, is_pending) in product((2, 3), asked):
        with open_on_engine(MemoryEngine.open("unused"), ss.KeyValue("s")) as store:
            store.put(b"k", b"old")
            store.commit({INPUT: 1})
            store.put(b"k", b"new")
            with interrupted_at("commit.apply.after", times):
                store.commit({INPUT: 2})
            ask(store)

            with pytest.raises(CommitConflictError, match="has what a commit that failed"):
                store.rollback()
            assert (store.get(b"k"), store.committed_offset(INPUT)) == (b"new", 2)
            assert store.has_pending_writes is (is_pending or times == 3)
            store.put(b"k", b"next")
            store.commit({INPUT: 3})
            assert (store.get(b"k"), store.committed_offset(INPUT)) == (b"next", 3)


@pytest.mark.spec("COM-42", "LGS-12")
def test_a_truncation_that_the_changelog_has_counts(tmp_path: Path) -> None:
    """The store went on with what its changelog had dropped: a restore had less than the engine."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.KeyValue("s"), partitions=1)
    with ss.open_logged_store(root, "s", 0, backend="memory") as logged:
        store: Any = logged.store
        store.put(b"old", b"v")
        logged.commit()
        with interrupted_at("logged.appended"):
            store.truncate()
        store.rollback()
        store.put(b"new", b"v")
        logged.commit()
        content = dict(store.range())
    with (
        open_on_engine(MemoryEngine.open("unused"), ss.KeyValue("s")) as restored,
        ChangelogReader.open(root.partition("s", 0).changelog) as log,
    ):
        ssa.restore(restored, changelog=log)

        assert dict(restored.range()) == content == {b"new": b"v"}


@pytest.mark.spec("LOG-15")
def test_a_frame_that_readers_see_is_not_overwritten(tmp_path: Path) -> None:
    """Nothing had cut it off: the next append wrote another one at its offset, in its place."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(ss.KeyValue("s"), partitions=1)
    with ss.open_logged_store(root, "s", 0, backend="memory") as logged:
        store: Any = logged.store
        store.put(b"k", b"seen")
        with interrupted_at("changelog.append.written"):
            logged.commit()
        with ChangelogReader.open(root.partition("s", 0).changelog) as log:
            seen = [frame.batch.column("value").to_pylist() for frame in log.read()]
        store.put(b"k", b"other")

        with pytest.raises(CommitInDoubtError, match="close the changelog and open it again"):
            logged.commit()
    with ss.open_logged_store(root, "s", 0, backend="memory") as logged:
        assert ([[logged.store.get(b"k")]], logged.committed_offset) == (seen, 0)
