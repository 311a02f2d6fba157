"""The state machine of values that expire, as a test of the author's class."""

from pathlib import Path

import pytest

from statestores.spi import TimestampedKeyValue
from statestores_conformance.models.running import run_machine
from statestores_conformance.models.timestamped_machine import TimestampedMachine
from statestores_conformance.subjects.timestamped_stores import OpenTimestampedStore


class TimestampedModelTests:
    """A timestamped store does what a ``dict`` of values and timestamps does."""

    @pytest.mark.spec("TKV-1", "TKV-2", "TKV-5", "TTL-1", "TTL-2", "TTL-3", "TTL-6", "TTL-7")
    @pytest.mark.spec("TTL-10", "COM-7", "COM-17", "COM-20", "COM-29", "COM-32")
    def test_any_sequence_of_operations(
        self, open_timestamped_store: OpenTimestampedStore, tmp_path: Path
    ) -> None:
        """Writes, reads, commits, rollbacks, reopening and restoring, in any order."""
        specification = TimestampedKeyValue("store")
        with open_timestamped_store(tmp_path / "probe", specification, None) as probe:
            persistent = probe.persistent
        run_machine(
            lambda: TimestampedMachine(open_timestamped_store, tmp_path), persistent=persistent
        )
