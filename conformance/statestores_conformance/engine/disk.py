"""Whether a durable batch has reached the disk, seen from outside the engine."""

import secrets

import pytest

from statestores.spi import Durability, Engine
from statestores_conformance.engine.page_cache import PageCache, can_be_observed
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import EngineFixtures, Engines

_VALUE_BYTES = 100_000


class EngineDiskTests(EngineFixtures):
    """What the kernel says about the engine's files after a durable batch."""

    @pytest.mark.spec("ENG-8", "ENG-12", "ENG-23", "COM-12")
    @pytest.mark.parametrize("batch", [{b"k": b"v"}, {}], ids=["batch", "empty-batch"])
    def test_a_durable_batch_waits_for_the_disk(
        self, engines: Engines, persistent_engine: Engine, batch: dict[bytes, bytes | None]
    ) -> None:
        """It takes to disk what was applied before it without waiting, even when it is empty."""
        promised = persistent_engine.capabilities.durable_commit
        skip_unless_promised("durable_commit", made=promised)
        if not can_be_observed(engines.path().parent):
            pytest.skip("the kernel or the file system does not tell what is on the disk")
        large = secrets.token_bytes(_VALUE_BYTES)
        with PageCache(engines.path()) as cache:
            at_first = cache.pages_not_on_disk()
            persistent_engine.apply({b"large": large}, Durability.PROCESS_CRASH)
            before = cache.pages_not_on_disk()
            persistent_engine.apply(batch, Durability.POWER_LOSS)
            after = cache.pages_not_on_disk()
        written = [path for path, pages in before.items() if pages > at_first.get(path, 0)]

        # Logs for humans and shared memory may go on waiting, but not everything that was written.
        assert not written or any(after[path] < before[path] for path in written)
