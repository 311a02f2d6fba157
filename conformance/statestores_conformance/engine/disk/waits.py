"""Reading a store whose commit is waiting for the disk."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from statestores.semantics import open_on_engine
from statestores.spi import Durability, Engine, Isolation, KeyValue, WriteBatch
from statestores_conformance.subjects.engines import EngineFixtures, durability_of
from statestores_conformance.subjects.faulty_engine import FaultyEngine

_PATIENCE_SECONDS = 60.0
"""Only a read that waits for ever reaches it."""


class WaitingEngine(FaultyEngine):
    """Has a disk that is slow on request: a batch is applied, and then `apply` does not return."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.slow = False
        self.waiting = threading.Event()
        """Set while a batch is applied and its writer waits."""
        self.written = threading.Event()
        """Set it to let the writer go on."""

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        super().apply(batch, durability)
        if self.slow:
            self.waiting.set()
            assert self.written.wait(_PATIENCE_SECONDS)


@pytest.mark.level("concurrent")
class DiskWaitTests(EngineFixtures):
    """What others see in a store while its owner waits."""

    @pytest.mark.spec("ROF-12")
    @pytest.mark.parametrize("isolation", Isolation, ids=lambda level: level.value)
    def test_a_reader_does_not_wait_for_the_disk(
        self, engine: Engine, isolation: Isolation
    ) -> None:
        """While the commit waits, reads return one commit or the other, whole."""
        disk = WaitingEngine(engine)
        with open_on_engine(disk, KeyValue("store"), durability=durability_of(engine)) as store:
            before, after = [(b"a", b"1"), (b"b", b"1")], [(b"a", b"2"), (b"b", b"2")]
            store.put_all(before)
            store.commit({})
            store.put_all(after)
            facade = store.read_only(isolation)
            disk.slow = True
            with ThreadPoolExecutor(2) as threads:
                commit = threads.submit(store.commit, {})
                try:
                    assert disk.waiting.wait(_PATIENCE_SECONDS)
                    seen = threads.submit(lambda: list(facade.range())).result(_PATIENCE_SECONDS)
                    done = commit.done()
                finally:
                    disk.written.set()
                commit.result(_PATIENCE_SECONDS)
            disk.slow = False

            assert not done, "the commit did not wait, so nothing was shown"
            assert seen in (before, after)
