"""A write waits while somebody else has its store, and holds nothing meanwhile."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from store_streams import make_store

import statestores as ss
from statestores.errors import InvalidOptionError, StoreLockedError
from statestores.files.directory_lock import DirectoryLock
from statestores.files.lock_waiting import when_unlocked
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.source.publishing import publishing_when_free
from statestores.spark.source.write_plan import WritePlan
from statestores.staging.staged_write import publishing
from statestores_conformance.many_cases import for_each

PATIENCE_MS = 300_000
"""No wait of a test lasts nearly as long; one that is never answered fails."""


def plan_of(root: str, timeout_ms: int) -> WritePlan:
    """Return the plan of a write to the store that `make_store` makes."""
    return WritePlan(
        root=GivenRoot(Path(root)),
        specification=ss.KeyValue("s", key=ss.utf8, value=ss.utf8),
        partitions=1,
        raw=False,
        skipped=False,
        commit_timeout_ms=timeout_ms,
    )


def adding(root: str) -> AbstractContextManager[Any]:
    """Hold the lock of somebody who adds a store."""

    class Held:
        def __enter__(self) -> None:
            self.lock = DirectoryLock.acquire(root)

        def __exit__(self, *_: object) -> None:
            self.lock.release()

    return Held()


HOLDERS: dict[str, Callable[[str], AbstractContextManager[Any]]] = {
    "another write": lambda root: publishing(ss.StateRoot.open(root), "s"),
    "an owner": lambda root: ss.open_logged_store(root, "s", 0, backend="memory"),
    "a new store": adding,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_write_waits_for_whoever_has_the_store(root: str, holder: str) -> None:
    """Two jobs that committed at one moment: one of them failed, also with onConflict=merge.

    It waits now, until the other has gone, be that another write, an owner, or one who adds a
    store, of which two writes that make one state root meet each other.
    """
    make_store(root, partitions=1)
    refused, ends = Event(), []

    def take() -> dict[int, int]:
        try:
            with publishing_when_free(plan_of(root, 0)) as publisher:
                return publisher.end_offsets
        except StoreLockedError:
            refused.set()
            raise

    waiting = Thread(target=lambda: ends.append(when_unlocked(take, PATIENCE_MS, "a test", "it")))
    with HOLDERS[holder](root):
        waiting.start()
        assert refused.wait(PATIENCE_MS / 1000)
        assert ends == []
    waiting.join(PATIENCE_MS / 1000)

    assert ends == [{0: 0}]


def test_a_write_that_gives_up_leaves_no_lock(root: str) -> None:
    """Its error names the one who has the store."""
    make_store(root, partitions=1)
    with ss.open_logged_store(root, "s", 0, backend="memory") as owner:
        refusal = "the write to 's' has waited for 1 ms, .* is open in process"
        with (
            pytest.raises(StoreLockedError, match=refusal) as raised,
            publishing_when_free(plan_of(root, 1)),
        ):
            pass
        owner.store.put("a", "1")
        owner.commit()

    assert raised.value.retryable
    with publishing_when_free(plan_of(root, 0)) as publisher:
        assert publisher.end_offsets == {0: 1}


@for_each("text", ["-1", "soon", "1.5s", "", "60 weeks"])
def test_a_timeout_that_is_no_time_is_refused(text: str) -> None:
    """It is a duration as any other, and a minute if nobody says."""
    assert SourceOptions.for_writing({"path": "/x"}).commit_timeout_ms == 60_000
    given = SourceOptions.for_writing({"path": "/x", "committimeout": "2m"})
    assert given.commit_timeout_ms == 120_000
    with pytest.raises(InvalidOptionError, match="'commitTimeout' must be milliseconds"):
        SourceOptions.for_writing({"path": "/x", "commitTimeout": text})
