"""How a store deletes what has expired, counted in rows of the engine."""

import pytest

from statestores.semantics import open_on_engine
from statestores.spi import Engine, TimestampedKeyValue, TimestampedKeyValueStore
from statestores_conformance.subjects.engines import EngineFixtures, durability_of, pairs_of
from statestores_conformance.subjects.faulty_engine import FaultyEngine, KeptOpen
from statestores_conformance.subjects.stores import CHANGELOG

_TTL_MS = 1_000
_EVENT = TimestampedKeyValue("store", ttl_ms=_TTL_MS)
_METADATA_ROWS = 5
_LEAST_WORK_ROWS = 200
"""Rows that the sweep in one commit may touch however little the commit wrote."""


class EngineTimeToLiveTests(EngineFixtures):
    """The rows of expired values leave the engine, a few with each commit."""

    @pytest.fixture
    def watched(self, engine: Engine) -> FaultyEngine:
        """Give one empty engine whose batches are kept."""
        return FaultyEngine(engine)

    @pytest.fixture
    def store(self, watched: FaultyEngine) -> TimestampedKeyValueStore[bytes, bytes]:
        """Open one empty store."""
        return open_on_engine(watched, _EVENT, durability=durability_of(watched))

    @pytest.mark.spec("TTL-8", "TTL-5")
    @pytest.mark.parametrize("rows_a_commit", [1, 20, 500])
    def test_rows_stay_within_twice_those_that_live(
        self,
        watched: FaultyEngine,
        store: TimestampedKeyValueStore[bytes, bytes],
        rows_a_commit: int,
    ) -> None:
        """Over fifty times to live, with keys that come once, and some that come again."""
        living, most = 0, 0
        step_ms = 4  # so 250 new keys are alive at any time
        for number in range(50 * _TTL_MS // step_ms):
            store.put(b"%d" % (number * 7_919), b"v", number * step_ms)
            if number % 5 == 0:
                store.put(b"again-%d" % (number % 20), b"v", number * step_ms)
            if number % rows_a_commit == 0:
                store.commit({})
            if number % 1_000 == 999:
                store.commit({})
                living = len(list(store.range()))
                most = max(most, len(pairs_of(watched)) - _METADATA_ROWS)

        assert living in range(250, 260)
        assert most <= 2 * living + rows_a_commit

    @pytest.mark.spec("TTL-8")
    def test_no_commit_pays_for_a_backlog(
        self, watched: FaultyEngine, store: TimestampedKeyValueStore[bytes, bytes]
    ) -> None:
        """When time leaps over everything, the next commits stay small, and all goes in the end."""
        for number in range(5_000):
            store.put(b"%05d" % number, b"1", number % 7)
        store.commit({})
        store.put(b"x", b"v", 10**9)
        watched.batches.clear()
        sizes = []
        for number in range(200):
            store.put(b"y", b"%d" % number, 10**9)
            store.commit({})
            sizes.append(len(watched.batches[-1]))

        assert 2 < max(sizes) <= _LEAST_WORK_ROWS
        assert list(store.range()) == [(b"x", (b"v", 10**9)), (b"y", (b"199", 10**9))]
        assert len(pairs_of(watched)) < 5_000 - 200 * 20

    @pytest.mark.spec("TTL-8")
    def test_the_sweep_goes_on_after_reopening(self, engine: Engine) -> None:
        """A store that is opened for one commit at a time does not grow for ever."""
        durability = durability_of(engine)
        for life in range(200):
            with open_on_engine(KeptOpen(engine), _EVENT, durability=durability) as store:
                for number in range(40):
                    store.put(b"%d-%d" % (life, number), b"v", life * 500)
                store.commit({})

        assert len(pairs_of(engine)) - _METADATA_ROWS <= 2 * 2 * 40 + 40

    @pytest.mark.spec("TTL-7")
    def test_an_empty_commit_with_offsets_deletes_nothing(self, engine: Engine) -> None:
        """That is how a restore ends that found nothing new: the store has no owner yet."""
        durability = durability_of(engine)
        with open_on_engine(KeptOpen(engine), _EVENT, durability=durability) as store:
            for number in range(200):
                store.put(b"%d" % number, b"v", number * 100)
            store.commit({})
        before = len(pairs_of(engine))
        with open_on_engine(KeptOpen(engine), _EVENT, durability=durability) as store:
            store.commit({CHANGELOG: 7})
            store.advance_position({CHANGELOG: 9})
            store.commit({})

            assert store.committed_offset(CHANGELOG) == 7
        assert len(pairs_of(engine)) == before + 2  # an offset and the position

    @pytest.mark.spec("TTL-9", "TTL-12")
    def test_a_new_time_to_live_reaches_old_rows(self, engine: Engine) -> None:
        """They were written when nothing expired, and are still deleted."""
        durability = durability_of(engine)
        forever = TimestampedKeyValue("store")
        with open_on_engine(KeptOpen(engine), forever, durability=durability) as store:
            for number in range(300):
                store.put(b"%03d" % number, b"v", number)
            store.commit({})
        with open_on_engine(KeptOpen(engine), _EVENT, durability=durability) as store:
            for number in range(50):
                store.put(b"now-%d" % number, b"v", 1_200)
                store.commit({})
            living = [key for key, _ in store.range()]

        assert living == [*(b"%03d" % n for n in range(201, 300)), *sorted(living[99:])]
        assert len(pairs_of(engine)) - len(living) <= _METADATA_ROWS
