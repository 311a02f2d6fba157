"""All tests of an engine: door one."""

from statestores_conformance.engine_batches import EngineBatchTests, EngineReopeningTests
from statestores_conformance.engine_capabilities import (
    EngineCapabilityTests,
    EngineCheckpointTests,
    EngineDurabilityTests,
    EngineIngestionTests,
)
from statestores_conformance.engine_closing import EngineClosingTests
from statestores_conformance.engine_damage import EngineDamageTests
from statestores_conformance.engine_locks import EngineLockTests, EngineOpeningTests
from statestores_conformance.engine_reads import EngineReadTests
from statestores_conformance.engine_snapshots import EngineSnapshotTests
from statestores_conformance.engine_threads import EngineThreadTests


# pytest runs the tests of the last base first.
class EngineTests(
    EngineDamageTests,
    EngineIngestionTests,
    EngineCheckpointTests,
    EngineDurabilityTests,
    EngineCapabilityTests,
    EngineThreadTests,
    EngineClosingTests,
    EngineSnapshotTests,
    EngineReopeningTests,
    EngineBatchTests,
    EngineReadTests,
    EngineLockTests,
    EngineOpeningTests,
):
    """Everything that chapter 1 of the specification requires of an engine.

    Give it one fixture::

        class TestLMDB(EngineTests):
            @pytest.fixture
            def open_engine(self) -> OpenEngine:
                return LMDBEngine.open
    """
