"""Every door to a store elsewhere: what comes out is typed, and is the same as in the process.

A type checker reads this file as well: `assert_type` is judged by it, and does nothing when run.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar, assert_type

import pytest
from served_shop import COUNTS, MINUTES, RATES, SEEN, VISITS, WORDS, Shop

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidTypeError, UnknownStateStoreError
from statestores.query import (
    LocalPartitions,
    QueryableStores,
    QueryableStoreType,
    Question,
    RoutedStores,
    key_value_store,
)
from statestores.query.metadata import StaticMembership
from statestores.serving import (
    AsyncKeyValueStore,
    AsyncSessionStore,
    AsyncStores,
    AsyncTimestampedKeyValueStore,
    AsyncVersionedStore,
    AsyncWindowStore,
    FlightServer,
    FlightStores,
)
from statestores.spi.records import SessionRecord, TimestampedValue, VersionedRecord, WindowRecord
from statestores.spi.stores.key_value import ReadOnlyKeyValueStore
from statestores.spi.stores.session import ReadOnlySessionStore
from statestores.spi.stores.store import ReadOnlyStore
from statestores.spi.stores.timestamped_key_value import ReadOnlyTimestampedKeyValueStore
from statestores.spi.stores.versioned import ReadOnlyVersionedStore
from statestores.spi.stores.window import ReadOnlyWindowStore

T = TypeVar("T")


@pytest.fixture(scope="module")
def flying(shop: Shop) -> Iterator[FlightServer]:
    """Serve the shop by Flight."""
    with FlightServer(shop.served) as server:
        yield server


@pytest.fixture(scope="module")
def remote() -> Iterator[FlightStores]:
    """Ask instances."""
    with FlightStores() as stores:
        yield stores


@pytest.mark.spec("SRV-21")
def test_a_host_is_asked_by_specification(
    shop: Shop, flying: FlightServer, remote: FlightStores
) -> None:
    """Keys and values are those of the specification, and the checker knows them."""
    host = flying.host
    counts = remote.store(host, COUNTS)
    seen = remote.store(str(host), SEEN)
    rates = remote.store(host, RATES, at_least=ss.Position({}), max_lag=0)
    minutes = remote.store(host, MINUTES)
    visits = remote.store(host, VISITS, include_stale=True)
    raw = remote.store(host, Question(specification=COUNTS))
    assert_type(counts, ReadOnlyKeyValueStore[str, int])
    assert_type(seen, ReadOnlyTimestampedKeyValueStore[str, Any])
    assert_type(rates, ReadOnlyVersionedStore[str, float])
    assert_type(minutes, ReadOnlyWindowStore[str, int])
    assert_type(visits, ReadOnlySessionStore[str, int])
    assert_type(raw, ReadOnlyStore)
    assert_type(counts.get("tea"), int | None)
    here = QueryableStores(shop.served)

    assert list(counts.range()) == list(here.store(COUNTS).range())
    assert seen.get("w07") == here.store(SEEN).get("w07")
    assert list(rates.range_history("w03", "w04")) == list(
        here.store(RATES).range_history("w03", "w04")
    )
    assert list(minutes.fetch_all()) == list(here.store(MINUTES).fetch_all())
    assert visits.fetch_session("w07", 100, 207) == 7
    assert list(remote.store(host, COUNTS, partition=1).range()) == list(
        here.store(COUNTS, partition=1).range()
    )
    with pytest.raises(InvalidTypeError, match="a specification or a Question"):
        remote.store(host, "counts")  # type: ignore[call-overload]
    with pytest.raises(InvalidArgumentError, match="name:port"):
        remote.store("nowhere", COUNTS)


@pytest.mark.spec("SRV-21")
def test_queries_are_typed_here_and_routed(
    shop: Shop, flying: FlightServer, remote: FlightStores
) -> None:
    """Whoever changes from one process to many changes no line that reads."""
    with RoutedStores(StaticMembership([flying.host], remote.instance), remote) as routed:
        for queries in (QueryableStores(shop.served), routed):
            counts = queries.store(COUNTS, max_lag=0)
            assert_type(counts, ReadOnlyKeyValueStore[str, int])
            assert_type(queries.store(SEEN), ReadOnlyTimestampedKeyValueStore[str, Any])
            assert_type(queries.store(RATES), ReadOnlyVersionedStore[str, float])
            assert_type(queries.store(MINUTES), ReadOnlyWindowStore[str, int])
            assert_type(queries.store(VISITS), ReadOnlySessionStore[str, int])
            named = queries.store("counts", key_value_store())
            assert_type(named, ReadOnlyKeyValueStore[Any, Any])

            assert counts.get("w07") == named.get("w07") == 7


async def _all(rows: AsyncIterator[T]) -> list[T]:
    return [row async for row in rows]


@pytest.mark.spec("SRV-21")
def test_reads_are_awaited(shop: Shop) -> None:
    """The same reads by the same names, typed as those are."""
    here = QueryableStores(shop.served)

    async def read() -> None:
        stores = AsyncStores(here)
        counts, seen = await stores.store(COUNTS), await stores.store(SEEN)
        assert_type(counts, AsyncKeyValueStore[str, int])
        assert_type(seen, AsyncTimestampedKeyValueStore[str, Any])

        one, many = await asyncio.gather(counts.get("w07"), counts.get_many(WORDS))
        assert_type(one, int | None)
        assert (one, many) == (7, list(range(20)))
        pairs = await _all(counts.range("w05", "w09", reverse=True))
        assert_type(pairs, list[tuple[str, int]])
        assert pairs == list(here.store(COUNTS).range("w05", "w09", reverse=True))
        assert len(await _all(counts.prefix_scan(b"w1"))) == 10
        assert await counts.approximate_num_entries() == 20
        assert await counts.position() == here.store(COUNTS).position
        assert await stores.positions("counts") == here.positions("counts")
        assert (counts.name, counts.specification) == ("counts", COUNTS)

        stamped = await seen.get("w07")
        assert_type(stamped, TimestampedValue[Any] | None)
        assert stamped == here.store(SEEN).get("w07")

        named = await stores.store("counts", key_value_store())
        assert await named.get("w07") == 7
        with pytest.raises(UnknownStateStoreError):
            await stores.store(ss.KeyValue("other"))
        with pytest.raises(InvalidTypeError, match="no store of a known kind"):
            await stores.store("counts", _Number())

    asyncio.run(read())


@pytest.mark.spec("SRV-21")
def test_reads_with_times_are_awaited(shop: Shop) -> None:
    """Versions, windows and sessions likewise."""
    here = QueryableStores(shop.served)

    async def read() -> None:
        stores = AsyncStores(here)
        rates = await stores.store(RATES, max_lag=0)
        minutes, visits = await stores.store(MINUTES), await stores.store(VISITS)
        assert_type(rates, AsyncVersionedStore[str, float])
        assert_type(minutes, AsyncWindowStore[str, int])
        assert_type(visits, AsyncSessionStore[str, int])

        version = await rates.get("w07", 1_500)
        assert_type(version, VersionedRecord[float] | None)
        assert version == here.store(RATES).get("w07", 1_500)
        assert await rates.get_many(["w07"], 0) == here.store(RATES).get_many(["w07"], 0)
        versions = here.store(RATES)
        assert await _all(rates.history("w07")) == list(versions.history("w07"))
        assert await _all(rates.range_history("w03", "w05", 1)) == list(
            versions.range_history("w03", "w05", 1)
        )
        assert await _all(rates.scan_as_of(500)) == list(versions.scan_as_of(500))
        assert await rates.stream_time_ms() == 2_000

        assert await minutes.fetch("w07", 60_000) == 7
        assert await minutes.fetch_many(["w07", "w08"], [60_000, 1]) == [7, None]
        windows = await _all(minutes.fetch_all(61_000))
        assert_type(windows, list[WindowRecord[str, int]])
        assert windows == list(here.store(MINUTES).fetch_all(61_000))
        assert len(await _all(minutes.fetch_range("w07"))) == 2

        assert await visits.fetch_session("w07", 100, 207) == 7
        assert await visits.fetch_many(["w07"], [100], [207]) == [7]
        sessions = await _all(visits.find_sessions_by_end(202, 205))
        assert_type(sessions, list[SessionRecord[str, int]])
        assert sessions == list(here.store(VISITS).find_sessions_by_end(202, 205))
        assert len(await _all(visits.find_all_sessions())) == 20
        assert await _all(visits.find_sessions("w07", 150, 160)) == [("w07", 100, 207, 7)]

    asyncio.run(read())


class _Number(QueryableStoreType[int]):
    """A type of one's own that makes no store."""

    def accepts(self, store: ReadOnlyStore) -> bool:
        """Return that it does."""
        return True

    def create(self, partitions: LocalPartitions[Any]) -> int:
        """Return a number."""
        return len(partitions.find())


@pytest.mark.spec("SRV-21")
def test_a_reader_that_stops_lets_go_of_the_rows(shop: Shop) -> None:
    """What is read of one commit is closed when the loop is left, and not some time later."""
    here = QueryableStores(shop.served)

    async def read() -> list[tuple[str, int]]:
        counts = await AsyncStores(here).store(COUNTS, max_lag=0)
        rows = counts.range()
        found = [await anext(rows)]
        await rows.aclose()  # type: ignore[attr-defined]  # a generator, as for any loop
        return found

    assert asyncio.run(read()) == [("w00", 0)]
