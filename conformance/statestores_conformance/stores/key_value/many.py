"""Many rows at once: columns that are longer than a store takes in one piece, and long ranges.

A store that has another way for many, or keeps them as they came until somebody asks, is right for
the few rows that most tests write.
"""

import random

import pytest

from statestores.spi import Isolation, KeyValueStore
from statestores_conformance.intensity import seed
from statestores_conformance.subjects.stores import KeyValueStores

Store = KeyValueStore[bytes, bytes]

_ROWS = 2_600
_KEYS = 1_700
"""Fewer, so that some keys come twice, as far apart as the rows allow."""

_LONG_BYTES = 1 << 20
_LONG_ROWS = 20
"""So many values of that length are more than anybody should hold at a time."""


class KeyValueManyTests:
    """What holds of many rows, pending and committed."""

    @pytest.fixture
    def store(self, key_value_stores: KeyValueStores) -> Store:
        """Open one empty store."""
        return key_value_stores.open().store

    @pytest.mark.spec("KVS-3", "KVS-6", "KVS-15")
    def test_of_equal_keys_in_long_columns_the_last_counts(self, store: Store) -> None:
        """However far apart they are; a request for all of them answers each."""
        keys = [b"%04d" % (number % _KEYS) for number in range(_ROWS)]
        values: list[bytes | None] = [b"%d" % number for number in range(_ROWS)]
        values[-100] = None
        store.put_many(keys, values)
        expected = dict(zip(keys, values, strict=True))

        assert store.get_many(keys) == [expected[key] for key in keys]
        store.commit({})
        asked = [*keys[::-1], b"missing", *keys]
        answers = [expected.get(key) for key in asked]
        assert store.get_many(asked) == answers
        for isolation in Isolation:
            assert store.read_only(isolation).get_many(asked) == answers

    @pytest.mark.spec("KVS-3")
    def test_columns_belong_to_their_caller_again(self, store: Store) -> None:
        """What is done to them after `put_many` is not what was put."""
        keys, values = [b"a", b"b"], [b"1", b"2"]
        store.put_many(keys, values)
        keys[0], values[1] = b"changed", b"changed"
        keys.append(b"added")
        values.append(b"added")
        store.commit({})

        assert list(store.range()) == [(b"a", b"1"), (b"b", b"2")]

    @pytest.mark.spec("KVS-7", "KVS-8", "KVS-9", "KVS-12")
    def test_pending_writes_merge_into_long_ranges(self, store: Store) -> None:
        """New values, deletions and keys in between, to the end in both directions."""
        chance = random.Random(seed(64))  # noqa: S311  # which rows
        content = {b"k%04d" % number: b"%d" % number for number in range(0, _KEYS, 2)}
        store.put_all(content.items())
        store.commit({})
        for number in range(_KEYS):
            key, choice = b"k%04d" % number, chance.randrange(6)
            if choice == 0:
                store.put(key, None)
                content.pop(key, None)
            elif choice == 1:
                store.put(key, b"new")
                content[key] = b"new"
        expected = sorted(content.items())
        facade = store.read_only(Isolation.READ_UNCOMMITTED)
        for reader in (store, facade):
            for reverse, step in ((False, 1), (True, -1)):
                assert list(reader.range(reverse=reverse)) == expected[::step]
                assert list(reader.prefix_scan(b"k", reverse=reverse)) == expected[::step]
                assert list(reader.prefix_scan(b"k1", reverse=reverse)) == [
                    pair for pair in expected[::step] if pair[0].startswith(b"k1")
                ]

    @pytest.mark.spec("KVS-21")
    def test_many_keys_are_updated_in_one_call(self, store: Store) -> None:
        """The function sees all of them together, in the order in which they first occur."""
        keys = [b"%04d" % (number % _KEYS) for number in range(_ROWS)]
        store.put_many(keys[:_KEYS:2], [b"v"] * (_KEYS // 2))
        calls: list[tuple[list[bytes], list[bytes | None]]] = []

        def function(asked: list[bytes], present: list[bytes | None]) -> list[bytes | None]:
            calls.append((list(asked), list(present)))
            return [b"%d" % place for place in range(len(asked))]

        store.update_many(keys, function)
        distinct = list(dict.fromkeys(keys))

        assert calls == [(distinct, [b"v", None] * (_KEYS // 2))]
        assert store.get_many(distinct) == [b"%d" % place for place in range(_KEYS)]

    @pytest.mark.spec("COM-20", "COM-38")
    def test_content_of_long_values_is_whole(self, store: Store) -> None:
        """Wherever its chunks are cut: each key once, in order, with its own value."""
        value = bytes(range(256)) * (_LONG_BYTES // 256)
        rows = [(b"%02d" % number, b"%02d" % number + value) for number in range(_LONG_ROWS)]
        rows += [(b"~%03d" % number, b"v") for number in range(100)]
        for key, each in rows:
            store.put(key, each)
        store.commit({})
        found = [
            pair
            for chunk in store.committed_content().changes
            for pair in zip(chunk.keys, chunk.values, strict=True)
        ]

        assert found == rows
