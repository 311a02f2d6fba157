"""Scanning a versioned store across keys, and what iterators and facades of it freeze."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidTypeError,
    StoreClosedError,
)
from statestores.spi import Isolation, ReadOnlyVersionedStore
from statestores_conformance.many_cases import for_each
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.versioned_fixtures import (
    HIGHEST_MS,
    Record,
    Store,
    VersionedStoreFixtures,
)

_READS: list[Callable[[ReadOnlyVersionedStore[bytes, bytes]], object]] = [
    lambda facade: facade.get(b"k"),
    lambda facade: facade.get(b"k", 15),
    lambda facade: facade.get_many([b"k"]),
    lambda facade: next(facade.history(b"k")),
    lambda facade: next(facade.scan_as_of()),
    lambda facade: facade.stream_time_ms,
]
"""Every kind of read."""

_MALFORMED_READS: dict[str, Callable[[Any], object]] = {
    "no key": lambda reader: reader.get(None),
    "a text key": lambda reader: reader.get("k", 15),
    "many, one without a key": lambda reader: reader.get_many([b"k", None], [1, 2]),
    "as of a float": lambda reader: reader.get(b"k", 1.0),
    "history of a text key": lambda reader: reader.history("k"),
    "history, reverse or not": lambda reader: reader.history(b"k", reverse=None),
    "scan of text keys": lambda reader: reader.scan_as_of(15, "a"),
    "scan, reverse or not": lambda reader: reader.scan_as_of(reverse=1),
    "histories of text keys": lambda reader: reader.range_history(None, "a"),
    "histories, reverse or not": lambda reader: reader.range_history(reverse=0),
}
"""Reads of which one argument is of a wrong type, by what is wrong."""


class VersionedScanTests(VersionedStoreFixtures):
    """Scans across keys, as of a time."""

    @pytest.fixture(params=["pending", "committed", "mixed"])
    def keys(self, store: Store, request: pytest.FixtureRequest) -> Store:
        """Give a store with the keys a to e: b is deleted, c is younger, d has an older version."""
        store.put_many([b"a", b"b", b"c", b"d"], [b"1"] * 4, [10, 10, 30, 10])
        if request.param == "mixed":
            store.commit({})
        store.put_many([b"b", b"d", b"e"], [None, b"2", b"1"], [20, 40, 5])
        if request.param == "committed":
            store.commit({})
        return store

    @pytest.mark.spec("VRS-12")
    @for_each(
        ("as_of_ms", "expected"),
        [
            (None, b"acde"),
            (4, b""),
            (5, b"e"),
            (10, b"abde"),
            (20, b"ade"),
            (30, b"acde"),
            (HIGHEST_MS, b"acde"),
        ],
    )
    def test_a_scan_has_what_get_has(
        self, keys: Store, as_of_ms: int | None, expected: bytes
    ) -> None:
        """Exactly the keys that have a value then, each with that version, in both directions."""
        pairs = [(bytes([key]), keys.get(bytes([key]), as_of_ms)) for key in expected]

        assert list(keys.scan_as_of(as_of_ms)) == pairs
        assert list(keys.scan_as_of(as_of_ms, reverse=True)) == pairs[::-1]
        assert None not in dict(pairs).values()

    @pytest.mark.spec("VRS-12")
    @for_each(
        ("first", "last", "expected"),
        [
            (b"a", b"d", b"acd"),
            (b"b", None, b"cde"),
            (None, b"c", b"ac"),
            (b"a\x00", b"c\xff", b"c"),
            (b"c", b"c", b"c"),
            (b"f", None, b""),
        ],
    )
    def test_a_key_range_is_inclusive(
        self, keys: Store, first: bytes | None, last: bytes | None, expected: bytes
    ) -> None:
        """``None`` opens a side; in reverse, *first* is still the lower bound."""
        forward = [key for key, _ in keys.scan_as_of(None, first, last)]
        backward = [key for key, _ in keys.scan_as_of(None, first, last, reverse=True)]

        assert forward == [bytes([key]) for key in expected]
        assert backward == forward[::-1]

    @pytest.mark.spec("VRS-24")
    def test_an_inverted_key_range_is_empty(self, keys: Store) -> None:
        """It is not an error, in either direction."""
        assert list(keys.scan_as_of(None, b"d", b"a")) == []
        assert list(keys.scan_as_of(10, b"d", b"a", reverse=True)) == []

    @pytest.mark.spec("SRV-10", "VRS-10", "VRS-24")
    @for_each(
        ("first", "last"),
        [(None, None), (b"a", b"d"), (b"b", None), (None, b"d"), (b"b", b"b"), (b"d", b"a")],
    )
    def test_histories_of_a_range_are_those_of_its_keys(
        self, keys: Store, first: bytes | None, last: bytes | None
    ) -> None:
        """Of keys that are deleted by now as well; all of it the other way round in reverse."""
        within = [
            key
            for key in (b"a", b"b", b"c", b"d", b"e")
            if (first or b"") <= key and (last is None or key <= last)
        ]
        for times in ((None, None), (10, 20), (15, 15), (None, 9), (41, None), (20, 40)):
            expected = [(key, each) for key in within for each in keys.history(key, *times)]
            found = _histories(keys, first, last, *times)

            assert found == expected
            assert _histories(keys, first, last, *times, reverse=True) == expected[::-1]
            for isolation in Isolation:
                facade = keys.read_only(isolation)
                seen = [(key, each) for key in within for each in facade.history(key, *times)]
                assert _histories(facade, first, last, *times) == seen

    @pytest.mark.spec("SRV-10", "VRS-25")
    def test_histories_of_a_range_are_frozen_at_the_call(self, keys: Store) -> None:
        """Puts, deletions, a horizon that moves on, and commits do not show."""
        expected = _histories(keys)
        held = [keys.range_history(), keys.range_history(reverse=True)]
        keys.put_many([b"a", b"b", b"f", b"x"], [b"new", None, b"new", b"v"], [15, 25, 1, 10**6])
        keys.commit({})

        assert [list(each) for each in held] == [expected, expected[::-1]]

    @pytest.mark.spec("VRS-12", "VRS-9")
    def test_a_scan_below_the_horizon_has_latest_versions_only(self, keys: Store) -> None:
        """As with `get`: the latest of each key, if it had begun by then."""
        keys.put(b"x", b"v", 10_000)

        assert [key for key, _ in keys.scan_as_of(10)] == [b"a", b"e"]
        assert [key for key, _ in keys.scan_as_of(40)] == [b"a", b"c", b"d", b"e"]


def _histories(
    reader: ReadOnlyVersionedStore[bytes, bytes], *bounds: Any, reverse: bool = False
) -> list[tuple[bytes, Record]]:
    """Return what `range_history` gives, if the store has it."""
    try:
        return list(reader.range_history(*bounds, reverse=reverse))
    except CapabilityNotSupportedError:
        skip_unless_promised("range_history", made=False)
        raise


class VersionedIteratorTests(VersionedStoreFixtures):
    """What iterators freeze."""

    @staticmethod
    def _iterators(store: Store) -> list[Iterator[Any]]:
        return [
            store.history(b"k"),
            store.history(b"k", reverse=True),
            store.history(b"k", 15, 35),
            store.scan_as_of(),
            store.scan_as_of(15, reverse=True),
        ]

    @pytest.mark.spec("VRS-25")
    def test_an_iterator_is_frozen_at_the_call(self, history: Store) -> None:
        """Puts, deletions and commits before its first step do not show."""
        expected = [list(iterator) for iterator in self._iterators(history)]
        held = self._iterators(history)
        history.put_many([b"k", b"k", b"k", b"a"], [b"new", None, b"new", b"new"], [10, 15, 50, 1])
        seen = [list(iterator) for iterator in held]
        history.rollback()
        history.put_many([b"k"] * 4, [b"10", b"20", None, b"40"], [10, 20, 30, 40])
        held = self._iterators(history)
        history.put_many([b"k", b"a"], [b"new", b"new"], [50, 1])
        history.commit({})
        seen += [list(iterator) for iterator in held]

        assert seen == expected * 2

    @pytest.mark.spec("VRS-25")
    def test_the_horizon_of_an_iterator_is_frozen(self, history: Store) -> None:
        """Stream time that moves on takes nothing away from an iterator under way."""
        expected = [list(iterator) for iterator in self._iterators(history)]
        held = self._iterators(history)
        history.put(b"x", b"v", 10**6)
        history.commit({})

        assert [list(iterator) for iterator in held] == expected

    @pytest.mark.spec("VRS-25")
    def test_an_iterator_is_frozen_over_a_rollback(self, history: Store) -> None:
        """What was pending at the call is still given after it was rolled back."""
        history.put(b"k", b"50", 50)
        expected = [list(iterator) for iterator in self._iterators(history)]
        held = self._iterators(history)
        history.rollback()

        assert [list(iterator) for iterator in held] == expected

    @pytest.mark.spec("VRS-26")
    def test_an_iterator_over_a_closed_store_raises(self, history: Store) -> None:
        """Whether it was begun or not, even at its end."""
        begun, unstarted, ended = (
            history.history(b"k"),
            history.scan_as_of(),
            history.history(b"k"),
        )
        next(begun)
        for _ in range(3):
            next(ended)
        history.close()
        for iterator in (begun, unstarted, ended):
            with pytest.raises(StoreClosedError):
                next(iterator)


class VersionedFacadeTests(VersionedStoreFixtures):
    """Every read of a facade."""

    @pytest.mark.spec("ROF-2", "ROF-8", "ROF-9")
    def test_every_read_of_a_facade_follows_its_isolation(self, store: Store) -> None:
        """Points, histories, scans and stream time agree on what is seen, horizon included."""
        store.put_many([b"k", b"k", b"j"], [b"1", b"2", b"1"], [10, 20, 10])
        store.commit({})
        store.put_many([b"k", b"x"], [b"3", b"v"], [30, 10_000])
        committed = store.read_only(Isolation.READ_COMMITTED)
        uncommitted = store.read_only(Isolation.READ_UNCOMMITTED)

        assert [committed.stream_time_ms, uncommitted.stream_time_ms] == [20, 10_000]
        assert committed.get(b"k") == Record(b"2", 20, None)
        assert uncommitted.get(b"k") == Record(b"3", 30, None)
        assert committed.get(b"k", 15) == Record(b"1", 10, 20)
        assert uncommitted.get(b"k", 15) is None
        assert committed.get_many([b"k", b"x", b"j"], [10, 10, 10]) == [
            Record(b"1", 10, 20),
            None,
            Record(b"1", 10, None),
        ]
        assert uncommitted.get_many([b"k", b"x"]) == [
            Record(b"3", 30, None),
            Record(b"v", 10_000, None),
        ]
        assert [record.valid_from_ms for record in committed.history(b"k")] == [10, 20]
        assert [record.valid_from_ms for record in uncommitted.history(b"k")] == [30]
        assert [key for key, _ in committed.scan_as_of()] == [b"j", b"k"]
        assert [key for key, _ in uncommitted.scan_as_of()] == [b"j", b"k", b"x"]
        assert next(iter(committed.history(b"k", reverse=True))).valid_to_ms is None

    @pytest.mark.spec("ROF-3", "COM-15")
    def test_a_facade_of_a_closed_store_refuses_every_method(self, history: Store) -> None:
        """Every kind of read raises at either isolation, whatever was pending."""
        facades = [history.read_only(isolation) for isolation in Isolation]
        history.close()
        for read in _READS:
            for facade in facades:
                with pytest.raises(StoreClosedError):
                    read(facade)

    @pytest.mark.spec("VRS-16", "COM-19")
    @for_each("isolation", Isolation)
    def test_a_facade_judges_arguments_as_the_store_does(
        self, history: Store, isolation: Isolation
    ) -> None:
        """What is malformed is refused at the call, and inverted key ranges are empty."""
        facade = history.read_only(isolation)
        for malformed in _MALFORMED_READS.values():
            for reader in (history, facade):
                with pytest.raises(InvalidTypeError):
                    malformed(reader)
        for read in (
            lambda: facade.get(b"k", -1),
            lambda: facade.history(b"k", 2, 1),
            lambda: facade.scan_as_of(-1),
            lambda: facade.get_many([b"k"], [1, 2]),
        ):
            with pytest.raises(InvalidArgumentError):
                read()

        assert list(facade.scan_as_of(None, b"b", b"a")) == []
