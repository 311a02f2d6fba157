"""Every call that a store makes to its engine fails once: nothing is lost, doubled, or made up."""

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from statestores.errors import (
    CommitConflictError,
    CommitInDoubtError,
    StateStoreError,
    StorageError,
)
from statestores.spi import Engine, TopicPartition
from statestores_conformance.engine.stores import OPENERS, OpenOverEngine
from statestores_conformance.faults.crash_workload import WORKLOADS
from statestores_conformance.faults.ordeal import GOING_ON, Interrupted, Ordeal, faults
from statestores_conformance.intensity import seed, trials
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import EngineFixtures, Engines, OpenEngine
from statestores_conformance.subjects.faulty_engine import (
    Fault,
    FaultyEngine,
    KeptOpen,
    Moment,
    disk_failed,
    wait_failed,
)
from statestores_conformance.subjects.stores import CHANGELOG, INPUT, KEYS

_SEED = seed(892)
_TRIALS = trials(4, least=3)
_SOAK_TRIALS = 2_000


@pytest.mark.level("fault-proof")
class FaultTests(EngineFixtures):
    """Both kinds over an engine any call of which may fail.

    The store is judged, and the engine with it: what a store may do after a failure depends on what
    the engine says it holds.
    """

    @pytest.fixture(params=list(WORKLOADS))
    def kind(self, request: pytest.FixtureRequest) -> str:
        """Give the kind of store."""
        kind: str = request.param
        return kind

    @pytest.fixture(params=list(OPENERS.values()), ids=list(OPENERS))
    def open_store(self, request: pytest.FixtureRequest) -> OpenOverEngine:
        """Give the function that opens a store of one kind over an engine."""
        opener: OpenOverEngine = request.param
        return opener

    @pytest.mark.spec("COM-9", "COM-43", "COM-7", "COM-2")
    @pytest.mark.parametrize("going_on", GOING_ON)
    def test_no_failed_call_loses_or_doubles_anything(
        self, open_engine: OpenEngine, kind: str, going_on: str, tmp_path: Path
    ) -> None:
        """Whichever call fails, before or after it took effect: the store holds whole commits."""
        self._try(open_engine, kind, going_on, tmp_path, _TRIALS)

    @pytest.mark.soak
    @pytest.mark.spec("COM-9", "COM-43")
    @pytest.mark.parametrize("going_on", GOING_ON)
    def test_none_of_many_failed_calls_loses_or_doubles_anything(
        self, open_engine: OpenEngine, kind: str, going_on: str, tmp_path: Path
    ) -> None:
        """The same, with every call of the run."""
        self._try(open_engine, kind, going_on, tmp_path, _SOAK_TRIALS)

    @staticmethod
    def _try(
        open_engine: OpenEngine, kind: str, going_on: str, directory: Path, trials: int
    ) -> None:
        workload = WORKLOADS[kind]
        rehearsed = partial(open_engine, directory / "rehearsal")
        if going_on == "reopen":
            with rehearsed() as probe:
                skip_unless_promised("persistent", made=probe.capabilities.persistent)
        rehearsal = Ordeal(rehearsed, workload(_SEED), None, going_on)

        assert rehearsal.run() == []
        for number, fault in enumerate(faults(rehearsal.calls, _SEED, trials)):
            opened = partial(open_engine, directory / f"engine-{number}")

            assert Ordeal(opened, workload(_SEED), fault, going_on).run() == [], fault

    @pytest.mark.spec("COM-43")
    @pytest.mark.parametrize("error", [disk_failed, Interrupted])
    def test_a_batch_that_was_applied_after_all_is_found_out(
        self,
        engine: Engine,
        open_store: OpenOverEngine,
        error: Callable[[], BaseException],
    ) -> None:
        """The engine raises and has the batch: content, offset and position say so together."""
        watched = FaultyEngine(engine)
        opened = open_store(watched)
        opened.fill()
        pending = opened.content()
        watched.plan(Fault(at=1, call="apply", moment=Moment.AFTER, error=error))
        with pytest.raises((StorageError, Interrupted)):
            opened.store.commit({CHANGELOG: 7})

        assert opened.store.committed_offset(CHANGELOG) == 7
        assert opened.content() == opened.committed() == pending
        with pytest.raises(CommitConflictError, match="commit again"):
            opened.store.rollback()
        opened.store.commit({CHANGELOG: 7})
        opened.store.rollback()
        assert opened.content() == opened.committed() == pending

    @pytest.mark.spec("COM-43")
    def test_an_engine_that_cannot_be_asked_is_asked_again(
        self, engine: Engine, open_store: OpenOverEngine
    ) -> None:
        """While the fate of a commit is unknown, the store says nothing that depends on it."""
        watched = FaultyEngine(engine)
        opened = open_store(watched)
        opened.store.commit({CHANGELOG: 1})
        opened.fill()
        pending = opened.content()
        watched.plan(Fault(at=1, call="apply", moment=Moment.AFTER, cuts_off=True))
        with pytest.raises(StorageError):
            opened.store.commit({CHANGELOG: 2})
        for ask in (
            lambda: opened.store.committed_offset(CHANGELOG),
            opened.store.committed_offsets,
            opened.store.rollback,
            opened.store.clear_offsets,
            lambda: opened.store.commit({}),
        ):
            with pytest.raises(StateStoreError):
                ask()
        watched.plan(None)

        assert opened.store.committed_offset(CHANGELOG) == 2
        opened.store.commit({})
        assert opened.committed() == pending

    @pytest.mark.spec("COM-46")
    @pytest.mark.parametrize("moment", Moment)
    def test_a_failed_wait_for_the_disk_stays_in_doubt_until_reopening(
        self, engine: Engine, open_store: OpenOverEngine, moment: Moment
    ) -> None:
        """The engine says that it cannot tell: nobody is told what became of the commit."""
        watched = FaultyEngine(KeptOpen(engine))
        opened = open_store(watched)
        opened.store.commit({CHANGELOG: 1})
        opened.fill()
        pending = opened.content()
        watched.plan(Fault(at=1, call="apply", moment=moment, error=wait_failed))
        with pytest.raises(CommitInDoubtError):
            opened.store.commit({CHANGELOG: 2})
        watched.plan(None)
        for ask in (
            lambda: opened.store.committed_offset(CHANGELOG),
            opened.store.committed_offsets,
            lambda: opened.store.next_offset(CHANGELOG),
            opened.store.rollback,
            opened.store.clear_offsets,
            opened.store.truncate,
            lambda: opened.store.commit({}),
        ):
            with pytest.raises(CommitInDoubtError, match="open it again"):
                ask()

        assert opened.content() == pending
        opened.store.close()
        again = open_store(KeptOpen(engine))
        is_there = moment is Moment.AFTER
        assert again.store.committed_offset(CHANGELOG) == 1 + is_there
        assert again.content() == (pending if is_there else {})

    @pytest.mark.spec("COM-43", "COM-5")
    @pytest.mark.parametrize("moment", Moment)
    def test_offsets_that_could_not_be_cleared_are_there_or_gone(
        self, engine: Engine, open_store: OpenOverEngine, moment: Moment
    ) -> None:
        """The store says what its engine holds, whichever it is."""
        watched = FaultyEngine(engine)
        opened = open_store(watched)
        opened.store.commit({CHANGELOG: 1})
        watched.plan(Fault(at=1, call="apply", moment=moment))
        with pytest.raises(StorageError):
            opened.store.clear_offsets()

        expected = {CHANGELOG: 1} if moment is Moment.BEFORE else {}
        assert opened.store.committed_offsets() == expected
        assert opened.facade().committed_offset(CHANGELOG) == expected.get(CHANGELOG)

    @pytest.mark.spec("COM-42")
    def test_a_commit_completes_a_truncation_that_failed(
        self, engines: Engines, open_store: OpenOverEngine
    ) -> None:
        """Whichever of its batches failed, and whether the engine has it: what follows stays."""
        for at, moment in product(range(1, 5), Moment):
            with engines.open(f"engine-{at}-{moment.name}") as engine:
                self._truncate_and_commit(engine, open_store, at, moment)

    @staticmethod
    def _truncate_and_commit(
        engine: Engine, open_store: OpenOverEngine, at: int, moment: Moment
    ) -> None:
        watched = FaultyEngine(engine)
        opened = open_store(watched)
        opened.fill()
        opened.store.advance_position({TopicPartition("old", 0): 1})
        opened.store.commit({CHANGELOG: 1})
        watched.plan(Fault(at=at, call="apply", moment=moment))
        try:
            opened.store.truncate()
        except StorageError:
            failed = True
        else:
            failed = False
        watched.plan(None)
        opened.write(KEYS[3], 50)
        expected = opened.latest_of_keys()[3]
        opened.store.advance_position({INPUT: 2})
        opened.store.commit({CHANGELOG: 2})
        again = open_store(KeptOpen(engine))

        assert failed == (at <= 3), (at, moment)
        assert again.latest() == {KEYS[3]: expected}, (at, moment)
        assert again.store.committed_offsets() == {CHANGELOG: 2}, (at, moment)
        assert dict(again.store.position) == {INPUT: 2}, (at, moment)
