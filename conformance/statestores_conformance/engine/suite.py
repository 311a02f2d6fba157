"""All tests of an engine: door one. Read this as the table of contents."""

import pytest

from statestores_conformance.engine.batches import EngineBatchTests, EngineReopeningTests
from statestores_conformance.engine.capabilities import (
    EngineCapabilityTests,
    EngineCheckpointTests,
    EngineDurabilityTests,
    EngineIngestionTests,
)
from statestores_conformance.engine.disk.damage import EngineDamageTests
from statestores_conformance.engine.disk.durable_batches import EngineDiskTests
from statestores_conformance.engine.disk.killed_writes import EngineKilledWriteTests
from statestores_conformance.engine.disk.large_batches import EngineLargeBatchTests
from statestores_conformance.engine.disk.many_batches import EngineManyBatchesTests
from statestores_conformance.engine.disk.shortages import EngineShortageTests
from statestores_conformance.engine.lifecycle.closing import EngineClosingTests
from statestores_conformance.engine.lifecycle.locks import EngineLockTests, EngineOpeningTests
from statestores_conformance.engine.lifecycle.options import EngineOptionTests
from statestores_conformance.engine.lifecycle.paths import EnginePathTests
from statestores_conformance.engine.lifecycle.unclosed import EngineUnclosedTests
from statestores_conformance.engine.reading.many_rows import EngineManyRowsTests
from statestores_conformance.engine.reading.reads import (
    EngineOrderTests,
    EnginePointReadTests,
    EngineScanTests,
    EngineSeekTests,
)
from statestores_conformance.engine.reading.snapshots import EngineSnapshotTests
from statestores_conformance.engine.reading.threads import EngineThreadTests
from statestores_conformance.engine.sizes import EngineSizeTests
from statestores_conformance.models.tests import EngineModelTests


@pytest.mark.level("engine")
class EngineTests:
    """Everything that chapter 1 of the specification requires of an engine.

    Give it one fixture::

        class TestLMDB(EngineTests):
            @pytest.fixture
            def open_engine(self) -> OpenEngine:
                return LMDBEngine.open
    """

    TestOpening = EngineOpeningTests
    TestOptions = EngineOptionTests
    TestPaths = EnginePathTests
    TestLocks = EngineLockTests
    TestPointReads = EnginePointReadTests
    TestOrder = EngineOrderTests
    TestSizes = EngineSizeTests
    TestSeeks = EngineSeekTests
    TestScans = EngineScanTests
    TestManyRows = EngineManyRowsTests
    TestBatches = EngineBatchTests
    TestLargeBatches = EngineLargeBatchTests
    TestKilledWrites = EngineKilledWriteTests
    TestManyBatches = EngineManyBatchesTests
    TestReopening = EngineReopeningTests
    TestSnapshots = EngineSnapshotTests
    TestClosing = EngineClosingTests
    TestUnclosed = EngineUnclosedTests
    TestThreads = EngineThreadTests
    TestCapabilities = EngineCapabilityTests
    TestDurability = EngineDurabilityTests
    TestDisk = EngineDiskTests
    TestCheckpoints = EngineCheckpointTests
    TestIngestion = EngineIngestionTests
    TestDamage = EngineDamageTests
    TestShortages = EngineShortageTests
    TestModel = EngineModelTests
