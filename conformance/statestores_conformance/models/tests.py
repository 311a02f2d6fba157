"""The state machines as tests of the author's class."""

from pathlib import Path

import pytest

from statestores.spi import KeyValue, Versioned
from statestores_conformance.models import (
    EngineMachine,
    KeyValueMachine,
    VersionedMachine,
    run_machine,
)
from statestores_conformance.subjects.engines import OpenEngine
from statestores_conformance.subjects.stores import OpenKeyValueStore, OpenVersionedStore


class EngineModelTests:
    """An engine does what a ``dict`` does."""

    @pytest.mark.spec("ENG-2", "ENG-3", "ENG-5", "ENG-6", "ENG-7", "ENG-9", "ENG-18", "ENG-20")
    def test_any_sequence_of_operations(self, open_engine: OpenEngine, tmp_path: Path) -> None:
        """Batches, reads, snapshots, held scans and reopening, in any order."""
        with open_engine(tmp_path / "probe") as probe:
            persistent = probe.capabilities.persistent
        run_machine(lambda: EngineMachine(open_engine, tmp_path), persistent=persistent)


class KeyValueModelTests:
    """A key-value store does what a ``dict`` does."""

    @pytest.mark.spec("KVS-1", "KVS-7", "KVS-11", "KVS-12", "COM-7", "COM-17", "COM-29", "COM-32")
    def test_any_sequence_of_operations(
        self, open_key_value_store: OpenKeyValueStore, tmp_path: Path
    ) -> None:
        """Writes, reads, commits, rollbacks, reopening and restoring, in any order."""
        with open_key_value_store(tmp_path / "probe", KeyValue("store")) as probe:
            persistent = probe.persistent
        run_machine(lambda: KeyValueMachine(open_key_value_store, tmp_path), persistent=persistent)


class VersionedModelTests:
    """A versioned store does what a map of times does."""

    @pytest.mark.spec("VRS-1", "VRS-9", "VRS-10", "VRS-11", "VRS-12", "VRS-13", "VRS-17", "VRS-25")
    @pytest.mark.spec("COM-7", "COM-17", "COM-20", "COM-29", "COM-32", "COM-40")
    def test_any_sequence_of_operations(
        self, open_versioned_store: OpenVersionedStore, tmp_path: Path
    ) -> None:
        """Writes, reads, commits, rollbacks, reopening and restoring, in any order."""
        with open_versioned_store(
            tmp_path / "probe", Versioned("store", history_retention_ms=0)
        ) as probe:
            persistent = probe.persistent
        run_machine(lambda: VersionedMachine(open_versioned_store, tmp_path), persistent=persistent)
