"""How window and session stores remove what has expired, counted in rows of the engine."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import pytest

from statestores.errors import StorageError
from statestores.semantics import open_on_engine
from statestores.spi import Engine, Session, Window
from statestores_conformance.subjects.engines import EngineFixtures, durability_of, pairs_of
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, KeptOpen

_RETENTION_MS = 1_000

_STEP_MS = 50

_AT_ONCE = 100
"""Rows of one commit: so many that a store may treat them as one."""

_ROWS_OF_A_VALUE = 2
"""A row of data and one of the index."""

_LEAST_WORK_ROWS = 200
"""Rows that the removal in one commit may touch however little the commit wrote."""


class _RemovalTests(EngineFixtures):
    """What holds for both kinds: a put has a key and the time that retention judges."""

    @abstractmethod
    def open(self, engine: Engine) -> tuple[Any, Callable[[bytes, int], object]]:
        """Open a store over *engine*; return it and its put."""

    @pytest.fixture
    def watched(self, engine: Engine) -> FaultyEngine:
        """Give one empty engine behind a `FaultyEngine`."""
        return FaultyEngine(engine)

    @pytest.mark.spec("WIN-18", "SES-18", "LAY-20")
    def test_what_expired_leaves_the_engine(self, watched: FaultyEngine) -> None:
        """As commits go on, the rows stay within a factor of those that can be read."""
        store, put = self.open(watched)
        visible = _RETENTION_MS // _STEP_MS
        rows = []
        for number in range(20 * visible):
            for key in range(10):
                put(b"%d" % key, number * _STEP_MS + key)
            store.commit({})
            rows.append(len(pairs_of(watched)) if number % 10 == 0 else 0)

        assert max(rows) < 2 * _ROWS_OF_A_VALUE * 10 * visible + _LEAST_WORK_ROWS

    @pytest.mark.spec("WIN-18", "SES-18")
    def test_what_expires_before_it_is_committed_is_not_written(
        self, watched: FaultyEngine
    ) -> None:
        """A batch that spans many retentions costs no more than what remains of it."""
        store, put = self.open(watched)
        for number in range(1_000):
            put(b"k", number * _STEP_MS)
        store.commit({})

        assert len(watched.batches[-1]) < 2 * _ROWS_OF_A_VALUE * _RETENTION_MS // _STEP_MS

    @pytest.mark.spec("WIN-19", "SES-19")
    def test_no_commit_pays_for_a_backlog(self, watched: FaultyEngine) -> None:
        """When stream time leaps over everything, the next commits stay small."""
        store, put = self.open(watched)
        for number in range(5_000):
            put(b"%05d" % number, 10)
        store.commit({})
        watched.batches.clear()
        sizes = []
        for number in range(60):
            put(b"y%d" % number, 10**9)
            store.commit({})
            sizes.append(len(watched.batches[-1]))

        assert max(sizes) <= _LEAST_WORK_ROWS
        assert min(sizes) > _LEAST_WORK_ROWS // 4

    @pytest.mark.spec("WIN-19", "SES-19", "WIN-18", "SES-18")
    def test_a_backlog_is_worked_off(self, watched: FaultyEngine) -> None:
        """Bit by bit, even by commits that write nothing; after that nothing more is done."""
        store, put = self.open(watched)
        for number in range(500):
            put(b"%05d" % number, 10)
        store.commit({})
        put(b"x", 10**9)
        for _ in range(20):
            store.commit({})
        watched.batches.clear()
        store.commit({})

        assert len([key for key, _ in pairs_of(watched) if key[0] > 1]) == _ROWS_OF_A_VALUE
        assert watched.batches == [{}]

    @pytest.mark.spec("WIN-20", "SES-20")
    def test_removal_goes_on_after_reopening(self, engine: Engine) -> None:
        """A store that is opened for a single commit at a time does not grow for ever."""
        for life in range(100):
            store, put = self.open(KeptOpen(engine))
            for number in range(20):
                put(b"%d" % number, life * 500)
            store.commit({})
            store.close()

        assert len(pairs_of(engine)) < 2 * _ROWS_OF_A_VALUE * 20 * 3 + _LEAST_WORK_ROWS

    @pytest.mark.spec("WIN-18", "SES-18")
    def test_what_came_late_leaves_the_engine(self, watched: FaultyEngine) -> None:
        """Also where nothing was as old when the last commit removed something."""
        store, put = self.open(watched)
        put(b"first", 10)
        store.commit({})
        rows = []
        for number in range(0, _RETENTION_MS, _STEP_MS):
            put(b"now", 2 * _RETENTION_MS + number)
            store.commit({})
            rows.append(len(pairs_of(watched)))
            for late in range(3 * _STEP_MS):
                put(b"late-%d" % late, _RETENTION_MS + number + 1 + late // 3)
            store.commit({})

        assert max(rows) < 2 * _ROWS_OF_A_VALUE * 3 * _STEP_MS + _LEAST_WORK_ROWS

    @pytest.mark.spec("WIN-8", "SES-8", "WIN-18", "SES-18")
    def test_rows_of_one_commit_go_when_each_has_expired(self, watched: FaultyEngine) -> None:
        """One that came with others, or is named with them, does not go with the first of them."""
        store, put = self.open(watched)
        times = range(500, 500 + _AT_ONCE)
        for time_ms in times:
            put(b"%d" % time_ms, time_ms)
        store.commit({})
        for now_ms in range(_RETENTION_MS + times[0], _RETENTION_MS + times[-1], 7):
            put(b"now", now_ms)
            store.commit({})
            keys = {key for changes in store.committed_changes() for key in changes.keys}

            assert keys == {b"now", *(b"%d" % at for at in times if at > now_ms - _RETENTION_MS)}

    @pytest.mark.spec("WIN-20", "SES-20", "COM-9")
    def test_a_failed_commit_removes_nothing(self, watched: FaultyEngine) -> None:
        """What it was going to remove, the next one removes."""
        store, put = self.open(watched)
        put(b"k", 10)
        store.commit({})
        before = pairs_of(watched)
        put(b"x", 10**9)
        watched.plan(Fault(call="apply", at=1))
        with pytest.raises(StorageError):
            store.commit({})
        after = pairs_of(watched)
        store.commit({})

        assert after == before
        assert len([key for key, _ in pairs_of(watched) if key[0] > 1]) == _ROWS_OF_A_VALUE


class WindowRemovalTests(_RemovalTests):
    """How a window store removes what has expired."""

    kind_chapters = frozenset({"WIN"})

    def open(self, engine: Engine) -> tuple[Any, Callable[[bytes, int], object]]:
        specification = Window("store", retention_ms=_RETENTION_MS, window_size_ms=10)
        store = open_on_engine(engine, specification, durability=durability_of(engine))
        return store, lambda key, time_ms: store.put(key, b"v", time_ms)


class SessionRemovalTests(_RemovalTests):
    """How a session store removes what has expired."""

    kind_chapters = frozenset({"SES"})

    def open(self, engine: Engine) -> tuple[Any, Callable[[bytes, int], object]]:
        specification = Session("store", retention_ms=_RETENTION_MS)
        store = open_on_engine(engine, specification, durability=durability_of(engine))
        return store, lambda key, time_ms: store.put(key, time_ms // 2, time_ms, b"v")
