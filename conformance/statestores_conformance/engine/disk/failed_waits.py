"""A disk that fails while an engine waits for what it has written."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from statestores.errors import CommitInDoubtError, StateStoreError
from statestores.spi import Durability, Engine
from statestores_conformance.engine.disk.failing_disk import let_waits_for_the_disk_fail
from statestores_conformance.engine.disk.killed_copy import killed_copy
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import EngineFixtures, OpenEngine, pairs_of

_BEFORE = [(b"before-%02d" % number, b"v" * 100) for number in range(20)]
_HURRIED = {b"hurried": b"h"}
_OWING = "one pair after one that waited for nothing"
_WRITTEN: dict[str, dict[bytes, bytes | None]] = {
    "nothing": {},
    "one pair": {b"k": b"v"},
    _OWING: {b"k": b"v"},
    "a deletion": {b"before-00": None},
    "both": {b"k": b"v", b"before-00": None, b"": b"", b"l": b"w"},
    "lengths": {b"%04d" % n * (n // 4): b"v" * n for n in (4, 124, 127, 128, 129, 255, 16_383)},
    "a long value": {b"k" * 16_384: b"v" * 100_000},
    "many in no order": {b"%05d" % (n * 7_919 % 10_007): b"v" for n in range(2_500)},
}
"""Batches with each thing that may have to be written down, and lengths at the edges of bytes."""


class FailedWaitTests(EngineFixtures):
    """What an engine says, and what it keeps, when a wait for the disk fails."""

    @pytest.mark.spec("ENG-7", "ENG-8", "ENG-28", "ENG-39")
    def test_a_failed_wait_for_the_disk_leaves_what_was_said(
        self, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """A durable batch whose wait fails is acknowledged, refused or in doubt, and never in part.

        What is refused is not there when the engine is opened again, what is acknowledged is.
        Whatever is in the batch: how it is written down decides what the engine can find out. And
        whether the process closes the engine or dies: a log that is cut or forgotten by closing has
        the batch until then.
        """
        promised = persistent_engine.capabilities.durable_commit
        skip_unless_promised("durable_commit", made=promised)
        persistent_engine.close()
        for name, batch in _WRITTEN.items():
            path = tmp_path / name
            before = dict(_BEFORE)
            with open_engine(path) as engine, ThreadPoolExecutor(1) as elsewhere:
                engine.apply(dict(_BEFORE), Durability.POWER_LOSS)
                if name == _OWING:
                    engine.apply(dict(_HURRIED), Durability.PROCESS_CRASH)
                    before |= _HURRIED
                said = elsewhere.submit(_answer_on_a_failing_disk, engine, batch).result()
                left = killed_copy(path, path.with_name(f"{path.name}, left"))
            after = {key: value for key, value in (before | batch).items() if value is not None}
            allowed = {"returned": [after], "refused": [before], "in doubt": [before, after]}
            for place in (path, left):
                with open_engine(place) as again:
                    found = pairs_of(again)
                assert found in [sorted(each.items()) for each in allowed[said]], place.name


def _answer_on_a_failing_disk(engine: Engine, batch: dict[bytes, bytes | None]) -> str:
    """Apply *batch* in a thread whose waits for the disk fail, and return what it was told."""
    if not let_waits_for_the_disk_fail():
        pytest.skip("the system cannot let waits for the disk fail for one thread")
    try:
        engine.apply(batch, Durability.POWER_LOSS)
    except CommitInDoubtError:
        return "in doubt"
    except StateStoreError:
        return "refused"
    return "returned"
