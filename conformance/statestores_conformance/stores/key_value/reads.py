"""Reading a key-value store: ranges and prefixes, over pending and committed writes together."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from statestores.errors import InvalidTypeError, StoreClosedError
from statestores.spi import Isolation, KeyValueStore, ReadOnlyKeyValueStore
from statestores_conformance.many_cases import for_each
from statestores_conformance.stores.key_value.writes import KeyValueOfThreePairs
from statestores_conformance.subjects import adversarial_keys
from statestores_conformance.subjects.stores import KeyValueStores

Store: TypeAlias = KeyValueStore[bytes, bytes]

_SHORT = [b"", *adversarial_keys.SHORT_KEYS]

_READS: list[Callable[[ReadOnlyKeyValueStore[bytes, bytes]], object]] = [
    lambda facade: facade.get(b"a"),
    lambda facade: facade.get_many([b"a"]),
    lambda facade: facade.get_many([]),
    lambda facade: next(facade.range()),
    lambda facade: next(facade.prefix_scan(b"")),
    lambda facade: facade.approximate_num_entries(),
]
"""Every kind of read."""

_MALFORMED_READS: dict[str, Callable[[Any], object]] = {
    "no key": lambda reader: reader.get(None),
    "a text key": lambda reader: reader.get("a"),
    "many, one without a key": lambda reader: reader.get_many([b"a", None]),
    "range of text keys": lambda reader: reader.range("a"),
    "range up to a text key": lambda reader: reader.range(None, "a"),
    "range, reverse or not": lambda reader: reader.range(reverse=1),
    "a text prefix": lambda reader: reader.prefix_scan("a"),
}
"""Reads of which one argument is of a wrong type, by what is wrong."""


def _keys(pairs: Iterator[tuple[bytes, bytes]]) -> list[bytes]:
    return [key for key, _ in pairs]


class KeyValueReadTests(KeyValueOfThreePairs):
    """Get, get many, range, prefix scan."""

    @pytest.mark.spec("KVS-5")
    def test_a_missing_key_is_none(self, abc: Store) -> None:
        """A key that was never put has no value, and neither has a neighbour of a key that was."""
        assert [abc.get(key) for key in (b"", b"x", b"a\x00", b"A")] == [None] * 4

    @pytest.mark.spec("KVS-6")
    def test_get_many_answers_key_by_key(self, abc: Store) -> None:
        """In the order of the keys, with ``None`` for missing keys and repeats repeated."""
        abc.put(b"b", b"new")
        abc.put(b"c", None)

        assert abc.get_many([b"c", b"b", b"x", b"a", b"b"]) == [None, b"new", None, b"1", b"new"]
        assert abc.get_many([]) == []

    @pytest.mark.spec("KVS-7", "KVS-8")
    @for_each(
        ("first", "last", "expected"),
        [
            (None, None, [b"a", b"b", b"c"]),
            (b"a", b"c", [b"a", b"b", b"c"]),
            (b"b", None, [b"b", b"c"]),
            (None, b"b", [b"a", b"b"]),
            (b"b", b"b", [b"b"]),
            (b"a\x00", b"b\xff", [b"b"]),
            (b"a\x00", b"a\xff", []),
            (b"d", None, []),
            (None, b"", []),
        ],
    )
    def test_a_range_is_inclusive_at_both_ends(
        self, abc: Store, first: bytes | None, last: bytes | None, expected: list[bytes]
    ) -> None:
        """``None`` opens a side; in reverse, *first* is still the lower bound."""
        assert _keys(abc.range(first, last)) == expected
        assert _keys(abc.range(first, last, reverse=True)) == expected[::-1]

    @pytest.mark.spec("KVS-18")
    def test_an_inverted_range_is_empty(self, abc: Store) -> None:
        """It is not an error, in either direction."""
        assert list(abc.range(b"c", b"a")) == []
        assert list(abc.range(b"c", b"a", reverse=True)) == []

    @pytest.mark.spec("KVS-7", "KVS-8", "KVS-12")
    def test_ranges_over_adversarial_keys(self, store: Store) -> None:
        """Between any two keys, half of them committed, half pending: one result, in order."""
        store.put_many(_SHORT[::2], [b"committed"] * len(_SHORT[::2]))
        store.commit({})
        store.put_many(_SHORT[1::2], [b"pending"] * len(_SHORT[1::2]))
        for first in _SHORT:
            for last in _SHORT[::3]:
                expected = [key for key in _SHORT if first <= key <= last]

                assert _keys(store.range(first, last)) == expected
                assert _keys(store.range(first, last, reverse=True)) == expected[::-1]

    @pytest.mark.spec("KVS-9")
    @pytest.mark.parametrize("state", ["pending", "committed", "mixed"])
    def test_a_prefix_scan_gives_prefixes_only(self, store: Store, state: str) -> None:
        """For every adversarial prefix, even one ending in ``ff``: all keys that begin with it."""
        half = len(_SHORT) // 2
        for number, key in enumerate(_SHORT):
            store.put(key, b"v")
            if state == "mixed" and number == half:
                store.commit({})
        if state == "committed":
            store.commit({})
        for prefix in _SHORT:
            expected = [key for key in _SHORT if key.startswith(prefix)]

            assert _keys(store.prefix_scan(prefix)) == expected
            assert _keys(store.prefix_scan(prefix, reverse=True)) == expected[::-1]

    @pytest.mark.spec("KVS-9")
    def test_a_prefix_at_the_edge_does_not_overmatch(self, store: Store) -> None:
        """``01 ff`` is not a prefix of ``02``, although ``02`` is below ``02 00``."""
        store.put_many([b"\x01\xff", b"\x01\xff\x00", b"\x02", b"\xff\xff"], [b"v"] * 4)

        assert _keys(store.prefix_scan(b"\x01\xff")) == [b"\x01\xff", b"\x01\xff\x00"]
        assert _keys(store.prefix_scan(b"\xff")) == [b"\xff\xff"]

    @pytest.mark.spec("KVS-12")
    def test_pending_writes_merge_into_committed_content(self, store: Store) -> None:
        """A pending value replaces, a pending deletion hides, at the ends and in between."""
        store.put_many([b"a", b"b", b"c", b"d", b"e"], [b"old"] * 5)
        store.commit({})
        store.put_many(
            [b"a", b"bb", b"c", b"e", b"0", b"f"], [None, b"new", b"new", None, b"x", b"x"]
        )
        store.put(b"0", None)
        expected = [(b"b", b"old"), (b"bb", b"new"), (b"c", b"new"), (b"d", b"old"), (b"f", b"x")]
        prefixed = [(b"b", b"old"), (b"bb", b"new")]

        for reverse, step in ((False, 1), (True, -1)):
            assert list(store.range(reverse=reverse)) == expected[::step]
            assert list(store.range(b"a", b"c", reverse=reverse)) == expected[:3][::step]
            assert list(store.prefix_scan(b"b", reverse=reverse)) == prefixed[::step]

    @pytest.mark.spec("KVS-12")
    def test_everything_hidden_is_an_empty_range(self, abc: Store) -> None:
        """When pending deletions hide all that is committed, nothing is found."""
        abc.put_many([b"a", b"b", b"c"], [None, None, None])

        assert list(abc.range()) == []
        assert list(abc.range(reverse=True)) == []
        assert list(abc.prefix_scan(b"")) == []

    @pytest.mark.spec("KVS-10")
    def test_the_number_of_entries_is_exact_for_keys_written_once(
        self, key_value_stores: KeyValueStores
    ) -> None:
        """Pending, committed, or both; and 0 for a store that never held anything."""
        store = key_value_stores.open().store
        counts = [store.approximate_num_entries()]
        store.put_many([b"a", b"b"], [b"1", b"2"])
        counts.append(store.approximate_num_entries())
        store.commit({})
        counts.append(store.approximate_num_entries())
        store.put(b"c", b"3")
        counts.append(store.approximate_num_entries())

        assert counts == [0, 2, 2, 3]


class KeyValueIteratorTests(KeyValueOfThreePairs):
    """What iterators freeze."""

    @pytest.mark.spec("KVS-11")
    def test_an_iterator_is_frozen_at_the_call(self, abc: Store) -> None:
        """Puts, deletions, commits and rollbacks before its first step do not show."""
        pairs = list(abc.range())

        def iterators() -> list[Iterator[tuple[bytes, bytes]]]:
            return [
                *(abc.range(reverse=reverse) for reverse in (False, True)),
                *(abc.prefix_scan(b"", reverse=reverse) for reverse in (False, True)),
            ]

        held = iterators()
        abc.put_many([b"a", b"b", b"bb"], [None, b"new", b"new"])
        seen = [list(iterator) for iterator in held]
        abc.put_many([b"a", b"b", b"bb"], [b"1", b"2", None])
        held = iterators()
        abc.put(b"c", None)
        abc.commit({})
        seen += [list(iterator) for iterator in held]

        assert seen == [pairs, pairs[::-1]] * 4

    @pytest.mark.spec("KVS-11")
    def test_an_iterator_is_frozen_over_a_rollback(self, abc: Store) -> None:
        """What was pending at the call is still given after it was rolled back."""
        abc.commit({})
        abc.put_many([b"a", b"d"], [None, b"4"])
        held = abc.range()
        first = next(held)
        abc.rollback()
        abc.put(b"c", b"new")

        assert [first, *held] == [(b"b", b"2"), (b"c", b"3"), (b"d", b"4")]

    @pytest.mark.spec("KVS-11")
    @pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
    def test_writing_while_iterating_is_safe(self, store: Store, *, reverse: bool) -> None:
        """Each pair comes once, as it was, while the loop rewrites the store."""
        pairs = [(b"%03d" % number, b"old") for number in range(200)]
        store.put_all(pairs[::2])
        store.commit({})
        store.put_all(pairs[1::2])
        seen = []
        for number, (key, value) in enumerate(store.range(reverse=reverse)):
            seen.append((key, value))
            store.put(key, b"new")
            store.put(key + b"+", b"new")
            store.delete(pairs[-1 - number][0] if reverse else pairs[number][0])
            if number % 10 == 0:
                store.commit({})

        assert seen == (pairs[::-1] if reverse else pairs)

    @pytest.mark.spec("KVS-13")
    def test_an_iterator_over_a_closed_store_raises(self, abc: Store) -> None:
        """Whether it was begun or not, over pending or committed writes."""
        begun, unstarted = abc.range(), abc.prefix_scan(b"", reverse=True)
        next(begun)
        abc.close()
        for iterator in (begun, unstarted):
            with pytest.raises(StoreClosedError):
                next(iterator)

    @pytest.mark.spec("KVS-13")
    def test_the_end_of_an_iterator_over_a_closed_store_raises(self, abc: Store) -> None:
        """At its last pair, an iterator cannot say whether that was the last: it raises."""
        held = abc.range()
        for _ in range(3):
            next(held)
        abc.close()
        with pytest.raises(StoreClosedError):
            next(held)


class KeyValueFacadeTests(KeyValueOfThreePairs):
    """Every read of a facade."""

    @pytest.mark.spec("ROF-2", "ROF-8")
    def test_every_read_of_a_facade_follows_its_isolation(self, store: Store) -> None:
        """Point reads, many keys, ranges, prefixes and counts agree on what is seen."""
        store.put_many([b"a", b"b", b"bc"], [b"1", b"2", b"3"])
        store.commit({})
        store.put_many([b"a", b"b", b"bd"], [None, b"new", b"4"])
        contents = {
            Isolation.READ_COMMITTED: {b"a": b"1", b"b": b"2", b"bc": b"3"},
            Isolation.READ_UNCOMMITTED: {b"b": b"new", b"bc": b"3", b"bd": b"4"},
        }
        keys = [b"a", b"b", b"bc", b"bd"]

        for isolation in Isolation:
            seen = contents[isolation]
            facade: ReadOnlyKeyValueStore[bytes, bytes] = store.read_only(isolation)
            assert [facade.get(key) for key in keys] == [seen.get(key) for key in keys]
            assert facade.get_many(keys) == [seen.get(key) for key in keys]
            assert dict(facade.range()) == seen
            assert list(facade.range(b"b", reverse=True)) == sorted(
                ((key, value) for key, value in seen.items() if key >= b"b"), reverse=True
            )
            assert _keys(facade.prefix_scan(b"b")) == [key for key in seen if key.startswith(b"b")]
            assert facade.approximate_num_entries() >= 1

    @pytest.mark.spec("ROF-2", "COM-19")
    @for_each("isolation", Isolation)
    def test_a_facade_judges_arguments_as_the_store_does(
        self, abc: Store, isolation: Isolation
    ) -> None:
        """What is malformed is refused at the call, and inverted ranges are empty."""
        facade = abc.read_only(isolation)
        for malformed in _MALFORMED_READS.values():
            for reader in (abc, facade):
                with pytest.raises(InvalidTypeError):
                    malformed(reader)

        assert list(facade.range(b"c", b"a")) == []

    @pytest.mark.spec("ROF-3", "COM-15")
    def test_a_facade_of_a_closed_store_refuses_every_method(self, abc: Store) -> None:
        """Every kind of read raises at either isolation, whatever was pending."""
        facades = [abc.read_only(isolation) for isolation in Isolation]
        abc.close()
        for read in _READS:
            for facade in facades:
                with pytest.raises(StoreClosedError):
                    read(facade)
