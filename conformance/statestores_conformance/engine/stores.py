"""Stores over an engine, seen from below: what reaches the engine, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from statestores.errors import StateStoreError, StorageError
from statestores.semantics import open_on_engine
from statestores.spi import (
    Durability,
    Engine,
    KeyValue,
    Session,
    Versioned,
    VersionedStore,
    Window,
)
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    OpenEngine,
    durability_of,
    pairs_of,
)
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, KeptOpen
from statestores_conformance.subjects.retained_stores import (
    WINDOW_SIZE_MS,
    SessionUnderTest,
    WindowUnderTest,
)
from statestores_conformance.subjects.stores import (
    CHANGELOG,
    INPUT,
    KEYS,
    RETENTION_MS,
    KeyValueUnderTest,
    StoreUnderTest,
    VersionedUnderTest,
)

OpenOverEngine: TypeAlias = Callable[[Engine], StoreUnderTest]
"""Opens a store over an engine."""

OPENERS: dict[str, OpenOverEngine] = {
    "key-value": lambda engine: KeyValueUnderTest(
        open_on_engine(engine, KeyValue("store"), durability=durability_of(engine))
    ),
    "versioned": lambda engine: VersionedUnderTest(
        open_on_engine(
            engine,
            Versioned("store", history_retention_ms=RETENTION_MS),
            durability=durability_of(engine),
        )
    ),
    "window": lambda engine: WindowUnderTest(
        open_on_engine(
            engine,
            Window("store", retention_ms=RETENTION_MS, window_size_ms=WINDOW_SIZE_MS),
            durability=durability_of(engine),
        )
    ),
    "session": lambda engine: SessionUnderTest(
        open_on_engine(
            engine,
            Session("store", retention_ms=RETENTION_MS),
            durability=durability_of(engine),
        )
    ),
}
"""How a store of each kind is opened over an engine."""

_NO_BATCH = Fault(call="apply", at=1, lasting=True)
"""No batch is applied after this one."""

_LEAST_WORK_ROWS = 200
"""Rows that the removal in one commit may touch however little the commit wrote."""


class EngineStoreTests(EngineFixtures):
    """Every kind over an engine whose batches are watched, and fail on request."""

    @pytest.fixture
    def watched(self, engine: Engine) -> FaultyEngine:
        """Give one empty engine behind a `FaultyEngine`."""
        return FaultyEngine(engine)

    @pytest.fixture(params=list(OPENERS.values()), ids=list(OPENERS))
    def open_store(self, request: pytest.FixtureRequest) -> Callable[[Engine], StoreUnderTest]:
        """Give the function that opens a store of one kind over an engine."""
        opener: Callable[[Engine], StoreUnderTest] = request.param
        return opener

    @pytest.fixture
    def opened(
        self, watched: FaultyEngine, open_store: Callable[[Engine], StoreUnderTest]
    ) -> StoreUnderTest:
        """Open one empty store."""
        return open_store(watched)

    @pytest.mark.spec("COM-1", "VRS-28")
    def test_a_commit_is_one_batch(self, watched: FaultyEngine, opened: StoreUnderTest) -> None:
        """Writes, offsets, position and removal go down together, or not at all."""
        for number in range(1, 40):
            for key in KEYS:
                opened.write(key, number * 200)
            opened.store.advance_position({INPUT: number})
            before = len(watched.batches)
            opened.store.commit({CHANGELOG: number})

            assert len(watched.batches) == before + 1

    @pytest.mark.spec("COM-1")
    def test_nothing_reaches_the_engine_before_the_commit(
        self, watched: FaultyEngine, opened: StoreUnderTest
    ) -> None:
        """Pending writes, reads over them and a rollback apply no batch."""
        before = pairs_of(watched)
        opened.fill()
        opened.store.advance_position({INPUT: 1})
        opened.content()
        opened.content_of_every_isolation()
        opened.store.rollback()

        assert pairs_of(watched) == before

    @pytest.mark.spec("COM-9")
    def test_a_commit_that_fails_publishes_nothing(
        self, watched: FaultyEngine, opened: StoreUnderTest
    ) -> None:
        """Others see the last commit; the owner still sees, and can commit, its writes."""
        opened.write(KEYS[0], 1)
        opened.store.commit({CHANGELOG: 1})
        committed = opened.committed()
        opened.fill()
        opened.store.advance_position({INPUT: 5})
        pending, pending_bytes = opened.content(), opened.store.uncommitted_bytes
        watched.plan(_NO_BATCH)
        for _ in range(2):
            with pytest.raises(StorageError):
                opened.store.commit({CHANGELOG: 2})

        assert opened.committed() == committed
        assert opened.store.committed_offset(CHANGELOG) == 1
        assert dict(opened.facade().position) == {}
        assert opened.content() == pending
        assert opened.store.uncommitted_bytes == pending_bytes
        watched.plan(None)
        opened.store.commit({CHANGELOG: 2})
        assert opened.committed() == pending
        assert opened.store.committed_offset(CHANGELOG) == 2
        assert dict(opened.facade().position) == {INPUT: 5}

    @pytest.mark.spec("COM-9", "COM-7")
    def test_a_commit_that_failed_can_be_rolled_back(
        self, watched: FaultyEngine, opened: StoreUnderTest
    ) -> None:
        """The store is as it was after its last commit, and goes on."""
        opened.write(KEYS[0], 1)
        opened.store.commit({CHANGELOG: 1})
        committed = opened.committed()
        opened.fill()
        watched.plan(_NO_BATCH)
        with pytest.raises(StorageError):
            opened.store.commit({CHANGELOG: 2})
        watched.plan(None)
        opened.store.rollback()

        assert opened.content() == opened.committed() == committed
        opened.store.commit({CHANGELOG: 3})
        assert opened.committed() == committed

    @pytest.mark.spec("COM-9", "ROF-8")
    def test_facades_go_on_after_a_commit_that_failed(
        self, watched: FaultyEngine, opened: StoreUnderTest
    ) -> None:
        """Neither isolation waits for, or trips over, a commit that did not happen."""
        opened.fill()
        watched.plan(_NO_BATCH)
        with pytest.raises(StorageError):
            opened.store.commit({})

        assert opened.content_of_every_isolation() == [{}, opened.content()]

    @pytest.mark.spec("COM-5")
    def test_clearing_that_fails_clears_nothing(
        self, watched: FaultyEngine, opened: StoreUnderTest
    ) -> None:
        """The offsets are still there, for the next opening too."""
        opened.store.commit({CHANGELOG: 1})
        watched.plan(_NO_BATCH)
        with pytest.raises(StorageError):
            opened.store.clear_offsets()

        assert opened.store.committed_offsets() == {CHANGELOG: 1}

    @pytest.mark.spec("COM-37")
    def test_a_truncation_that_was_interrupted_is_completed(
        self,
        open_engine: OpenEngine,
        open_store: Callable[[Engine], StoreUnderTest],
        tmp_path: Path,
    ) -> None:
        """Wherever it breaks off: all of the old content or, after reopening, none of it."""
        seen_whole = seen_empty = 0
        for fail_at in range(20):
            with open_engine(tmp_path / f"truncated-{fail_at}") as engine:
                watched = FaultyEngine(engine)
                opened = open_store(watched)
                opened.fill()
                opened.store.advance_position({INPUT: 1})
                opened.store.commit({CHANGELOG: 1})
                before = opened.committed()
                watched.plan(Fault(call="apply", at=fail_at + 1, lasting=True))
                try:
                    opened.store.truncate()
                except StorageError:
                    finished = False
                else:
                    finished = True
                watched.plan(None)
                again = open_store(KeptOpen(engine))
                with again.store as reopened:
                    content, offsets = again.content(), reopened.committed_offsets()
                    position = dict(reopened.position)

            if content:
                assert (content, offsets, position) == (before, {CHANGELOG: 1}, {INPUT: 1})
                seen_whole += 1
            else:
                assert (content, offsets, position) == ({}, {}, {})
                seen_empty += 1
            if finished:
                break

        assert finished
        assert seen_whole
        assert seen_empty

    @pytest.mark.spec("COM-25")
    def test_a_commit_has_the_durability_of_its_store(self, engine: Engine) -> None:
        """The engine is told that one, unless the commit names its own."""
        watched = _DurabilityWatch(engine)
        durability = durability_of(engine)
        store = open_on_engine(watched, KeyValue("store"), durability=durability)
        watched.durabilities.clear()
        store.put(b"k", b"v")
        store.commit({})
        store.put(b"k", b"w")
        store.commit({}, durability=Durability.PROCESS_CRASH)

        assert watched.durabilities == [durability, Durability.PROCESS_CRASH]

    @pytest.mark.spec("COM-14", "COM-27")
    def test_an_unknown_format_is_refused(
        self, engine: Engine, open_store: Callable[[Engine], StoreUnderTest]
    ) -> None:
        """The store of a later release is neither read nor changed."""
        opened = open_store(KeptOpen(engine))
        opened.fill()
        opened.store.commit({CHANGELOG: 1})
        engine.apply({b"\x00format": b"999"}, Durability.PROCESS_CRASH)
        before = pairs_of(engine)
        with pytest.raises(StateStoreError, match="999") as refused:
            open_store(KeptOpen(engine))

        assert type(refused.value).__name__ == "UnsupportedFormatError"
        assert pairs_of(engine) == before

    @pytest.mark.spec("COM-27")
    def test_what_is_no_store_is_refused(
        self, engine: Engine, open_store: Callable[[Engine], StoreUnderTest]
    ) -> None:
        """An engine that holds somebody else's data is left as it is."""
        engine.apply({b"somebody": b"else's"}, Durability.PROCESS_CRASH)
        with pytest.raises(StateStoreError):
            open_store(KeptOpen(engine))

        assert pairs_of(engine) == [(b"somebody", b"else's")]


class EngineRetentionTests(EngineFixtures):
    """How a versioned store removes what has expired, counted in rows of the engine."""

    @pytest.fixture
    def watched(self, engine: Engine) -> FaultyEngine:
        """Give one empty engine behind a `FaultyEngine`."""
        return FaultyEngine(engine)

    @pytest.fixture
    def store(self, watched: FaultyEngine) -> VersionedStore[bytes, bytes]:
        """Open one empty store."""
        return open_on_engine(
            watched,
            Versioned("store", history_retention_ms=1_000),
            durability=durability_of(watched),
        )

    @pytest.mark.spec("VRS-14")
    def test_expired_versions_leave_the_engine(
        self, watched: FaultyEngine, store: VersionedStore[bytes, bytes]
    ) -> None:
        """As commits go on, the rows stay within a constant factor of those still needed."""
        needed = 0
        for number in range(400):
            for key in range(10):
                store.put(b"%d" % key, b"v", number * 50)
            store.commit({})
            needed = 10 * min(number + 1, 1_000 // 50 + 1)

        assert len(pairs_of(watched)) < 2 * needed + _LEAST_WORK_ROWS

    @pytest.mark.spec("VRS-14")
    def test_expired_deletions_leave_the_engine(
        self, watched: FaultyEngine, store: VersionedStore[bytes, bytes]
    ) -> None:
        """Keys that come only once and are deleted do not stay for ever."""
        for number in range(2_000):
            store.put(b"%d" % number, b"v", number * 50)
            store.delete(b"%d" % number, number * 50 + 10)
            if number % 5 == 0:
                store.commit({})
        store.commit({})
        needed = 3 * 1_000 // 50

        assert len(pairs_of(watched)) < 3 * needed + _LEAST_WORK_ROWS

    @pytest.mark.spec("VRS-27")
    def test_no_commit_pays_for_a_backlog(
        self, watched: FaultyEngine, store: VersionedStore[bytes, bytes]
    ) -> None:
        """When the horizon leaps over everything, the next commits stay small."""
        for number in range(5_000):
            store.put(b"%05d" % number, b"1", 0)
            store.put(b"%05d" % number, b"2", 10)
        store.commit({})
        store.put(b"x", b"v", 10**9)
        watched.batches.clear()
        sizes = []
        for number in range(50):
            store.put(b"y%d" % number, b"v", 10**9)
            store.commit({})
            sizes.append(len(watched.batches[-1]))

        assert max(sizes) <= _LEAST_WORK_ROWS

    @pytest.mark.spec("VRS-13", "VRS-14", "VRS-15")
    def test_removal_goes_on_after_reopening(self, engine: Engine) -> None:
        """A store that is opened for a few commits at a time does not grow for ever."""
        specification = Versioned("store", history_retention_ms=1_000)
        for life in range(100):
            store = open_on_engine(
                KeptOpen(engine), specification, durability=durability_of(engine)
            )
            for number in range(20):
                store.put(b"%d" % number, b"v", life * 500)
            for number in range(3):
                store.put(b"%d" % number, b"v", life * 500 + number)
                store.commit({})
            store.close()

        assert len(pairs_of(engine)) < 2 * 3 * 23 + _LEAST_WORK_ROWS


class _DurabilityWatch(FaultyEngine):
    """An engine that remembers the durability with which it was asked to apply."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.durabilities: list[Durability] = []

    def apply(self, batch: Any, durability: Durability) -> None:
        self.durabilities.append(durability)
        super().apply(batch, durability)
