"""Writing a key-value store."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError, StateStoreError
from statestores.spi import KeyValueStore
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects import adversarial_keys
from statestores_conformance.subjects.stores import KeyValueStores


class ListColumn:
    """A column that becomes a list, as an Arrow array does, without needing Arrow."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def to_pylist(self) -> list[Any]:
        return list(self._values)


COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "column": ListColumn,
}
"""The forms in which many values may be given."""

_MALFORMED: dict[str, tuple[Any, Any]] = {
    "no key": (None, b"v"),
    "text key": ("k", b"v"),
    "number key": (1, b"v"),
    "bytearray key": (bytearray(b"k"), b"v"),
    "text value": (b"k", "v"),
    "number value": (b"k", 1),
    "bytearray value": (b"k", bytearray(b"v")),
}


class KeyValueOfThreePairs:
    """The store that most tests begin with."""

    @pytest.fixture
    def store(self, key_value_stores: KeyValueStores) -> KeyValueStore[bytes, bytes]:
        """Open one empty store."""
        return key_value_stores.open().store

    @pytest.fixture(params=["pending", "committed"])
    def abc(
        self, store: KeyValueStore[bytes, bytes], request: pytest.FixtureRequest
    ) -> KeyValueStore[bytes, bytes]:
        """Give a store that holds a, b and c, once pending and once committed."""
        for key, value in ((b"b", b"2"), (b"c", b"3"), (b"a", b"1")):
            store.put(key, value)
        if request.param == "committed":
            store.commit({})
        return store


class KeyValueWriteTests(KeyValueOfThreePairs):
    """Put, put if absent, delete."""

    @pytest.mark.spec("KVS-1", "KVS-5")
    def test_put_sets_the_value(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """A second put replaces the first, and no other key is touched."""
        abc.put(b"b", b"new")
        at_once = dict(abc.range())
        abc.commit({})

        assert at_once == dict(abc.range()) == {b"a": b"1", b"b": b"new", b"c": b"3"}

    @pytest.mark.spec("KVS-1")
    def test_putting_none_deletes(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """The key is gone, before the commit and after it."""
        abc.put(b"b", None)
        at_once = abc.get(b"b")
        abc.commit({})

        assert at_once is None
        assert list(abc.range()) == [(b"a", b"1"), (b"c", b"3")]

    @pytest.mark.spec("KVS-1")
    def test_deleting_what_is_not_there_has_no_effect(
        self, abc: KeyValueStore[bytes, bytes]
    ) -> None:
        """It is not an error, by `put` or by `delete`."""
        before = list(abc.range())
        abc.put(b"x", None)
        old = abc.delete(b"y")
        abc.commit({})

        assert old is None
        assert list(abc.range()) == before

    @pytest.mark.spec("KVS-1")
    def test_a_deleted_key_can_be_put_again(self, store: KeyValueStore[bytes, bytes]) -> None:
        """In one commit or over several, the last write counts."""
        for committing in (False, True):
            for value in (b"1", None, b"2", None, b"3"):
                store.put(b"k", value)
                if committing:
                    store.commit({})

                assert store.get(b"k") == value
        store.commit({})

        assert list(store.range()) == [(b"k", b"3")]

    @pytest.mark.spec("COM-28")
    def test_empty_keys_and_values_are_not_absence(self, key_value_stores: KeyValueStores) -> None:
        """``b""`` is a key and a value like any other, even from the engine."""
        store = key_value_stores.open().store
        absent = store.get(b"")
        store.put(b"", b"")
        pending = (store.get(b""), list(store.range()), store.put_if_absent(b"", b"x"))
        store.commit({})
        committed = (store.get(b""), list(store.range()), store.put_if_absent(b"", b"x"))

        assert absent is None
        assert pending == committed == (b"", [(b"", b"")], b"")
        assert store.delete(b"") == b""
        assert list(store.range()) == []

    @pytest.mark.spec("KVS-2")
    def test_put_if_absent_keeps_what_is_there(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """It returns the value that the key had, and changes nothing."""
        assert abc.put_if_absent(b"b", b"new") == b"2"
        assert abc.get(b"b") == b"2"

    @pytest.mark.spec("KVS-2")
    def test_put_if_absent_sets_what_is_missing(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """It returns ``None`` exactly when it has set the value, even for a deleted key."""
        abc.put(b"c", None)

        assert abc.put_if_absent(b"d", b"4") is None
        assert abc.put_if_absent(b"c", b"5") is None
        assert abc.get_many([b"d", b"c"]) == [b"4", b"5"]

    @pytest.mark.spec("KVS-14")
    def test_put_if_absent_refuses_none(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """It could only mean to delete what is not there."""
        nothing: Any = None
        for key in (b"a", b"x"):
            with pytest.raises(InvalidTypeError):
                abc.put_if_absent(key, nothing)

        assert [key for key, _ in abc.range()] == [b"a", b"b", b"c"]

    @pytest.mark.spec("KVS-4")
    def test_delete_returns_what_was_there(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """The old value once, then ``None``."""
        assert abc.delete(b"b") == b"2"
        assert abc.delete(b"b") is None
        assert abc.get(b"b") is None

    @pytest.mark.spec("KVS-1", "COM-28", "ENG-25")
    def test_adversarial_keys_are_kept_apart(self, key_value_stores: KeyValueStores) -> None:
        """Committed and reopened or still pending, each key has its own value, in order."""
        store = key_value_stores.open().store
        # The store puts a byte before each key: the engine's longest key is too long here.
        keys = [b"", *(key for key in adversarial_keys.KEYS if len(key) < 1_000)]
        for number, key in enumerate(keys):
            store.put(key, b"%d" % number)
        expected = [(key, b"%d" % number) for number, key in enumerate(keys)]
        pending = list(store.range())
        store.commit({})

        assert pending == list(store.range()) == expected
        assert store.get_many(keys) == [value for _, value in expected]

    @pytest.mark.spec("COM-19")
    @for_each(("key", "value"), _MALFORMED.values())
    def test_a_malformed_write_is_refused(
        self, store: KeyValueStore[bytes, bytes], key: Any, value: Any
    ) -> None:
        """The error is ours, and nothing changes."""
        writes: list[Callable[[], object]] = [
            lambda: store.put(key, value),
            lambda: store.put_if_absent(key, value),
        ]
        for write in writes:
            with pytest.raises(InvalidTypeError):
                write()

        assert list(store.range()) == []
        assert store.uncommitted_bytes == 0

    @pytest.mark.spec("COM-19")
    @for_each("key", [None, "a", 1, bytearray(b"a"), [b"a"]])
    def test_a_malformed_key_is_refused_by_every_read(
        self, abc: KeyValueStore[bytes, bytes], key: Any
    ) -> None:
        """``None`` is never a key; where it opens a range, it is a bound and not a key."""
        reads: list[Callable[[], object]] = [
            lambda: abc.get(key),
            lambda: abc.get_many([b"a", key]),
            lambda: abc.delete(key),
            lambda: abc.prefix_scan(key),
        ]
        if key is not None:
            reads += [lambda: abc.range(key, b"z"), lambda: abc.range(b"a", key)]
        for read in reads:
            with pytest.raises(InvalidTypeError):
                read()

        assert [key for key, _ in abc.range()] == [b"a", b"b", b"c"]


class KeyValueBulkTests(KeyValueOfThreePairs):
    """Many entries at once."""

    @pytest.mark.spec("KVS-15")
    def test_put_all_takes_effect_in_order(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """Of several entries for one key the last wins; ``None`` deletes."""
        abc.put_all([(b"a", b"x"), (b"b", None), (b"d", b"4"), (b"a", None), (b"b", b"y")])

        assert list(abc.range()) == [(b"b", b"y"), (b"c", b"3"), (b"d", b"4")]

    @pytest.mark.spec("KVS-15")
    def test_put_many_takes_effect_in_order(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """Of several entries for one key the last wins; ``None`` deletes."""
        abc.put_many([b"a", b"b", b"d", b"a", b"b"], [b"x", None, b"4", None, b"y"])

        assert list(abc.range()) == [(b"b", b"y"), (b"c", b"3"), (b"d", b"4")]

    @pytest.mark.spec("KVS-3")
    @for_each(("key", "value"), _MALFORMED.values())
    def test_one_malformed_entry_refuses_them_all(
        self, abc: KeyValueStore[bytes, bytes], key: Any, value: Any
    ) -> None:
        """Nothing is put, not even what came before the malformed entry."""
        before = list(abc.range())
        bytes_before = abc.uncommitted_bytes
        with pytest.raises(InvalidTypeError):
            abc.put_all([(b"x", b"1"), (key, value), (b"y", b"1")])
        with pytest.raises(InvalidTypeError):
            abc.put_many([b"x", key, b"y"], [b"1", value, b"1"])

        assert list(abc.range()) == before
        assert abc.uncommitted_bytes == bytes_before

    @pytest.mark.spec("KVS-3")
    def test_entries_that_break_off_put_nothing(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """When the iterator raises, its error comes through and nothing was put."""

        def broken() -> Iterator[tuple[bytes, bytes]]:
            yield b"x", b"1"
            raise ZeroDivisionError

        before = list(abc.range())
        with pytest.raises(ZeroDivisionError):
            abc.put_all(broken())
        with pytest.raises(ZeroDivisionError):
            abc.put_many((key for key, _ in broken()), [b"1"])

        assert list(abc.range()) == before

    @pytest.mark.spec("KVS-3", "COM-19")
    @for_each("entries", [None, 1, b"ab", [b"ab", 1], [(b"a", b"b", b"c")], [None]])
    def test_what_is_no_sequence_of_pairs_is_refused(
        self, store: KeyValueStore[bytes, bytes], entries: Any
    ) -> None:
        """The error is ours, and nothing is put."""
        with pytest.raises((InvalidTypeError, InvalidArgumentError)):
            store.put_all(entries)

        assert list(store.range()) == []

    @pytest.mark.spec("KVS-16")
    @for_each(("keys", "values"), [([b"x", b"y"], [b"1"]), ([b"x"], [b"1", b"2"]), ([], [b"1"])])
    def test_columns_of_different_length_are_refused(
        self, store: KeyValueStore[bytes, bytes], keys: list[bytes], values: list[bytes]
    ) -> None:
        """Nothing is put, not even the rows that are complete."""
        with pytest.raises(InvalidArgumentError):
            store.put_many(keys, values)

        assert list(store.range()) == []

    @pytest.mark.spec("KVS-17")
    @for_each("form", COLUMNS.values())
    def test_columns_come_in_many_forms(
        self, store: KeyValueStore[bytes, bytes], form: Callable[[list[Any]], Any]
    ) -> None:
        """Any iterable is a column, and so is anything with `to_pylist`, with nulls as ``None``."""
        store.put(b"c", b"old")
        store.put_many(form([b"a", b"b", b"c"]), form([b"1", b"2", None]))

        assert list(store.range()) == [(b"a", b"1"), (b"b", b"2")]
        assert store.get_many(form([b"b", b"x", b"a"])) == [b"2", None, b"1"]

    @pytest.mark.spec("KVS-3")
    def test_putting_nothing_is_not_an_error(self, store: KeyValueStore[bytes, bytes]) -> None:
        """No entries, no change."""
        store.put_all([])
        store.put_many([], [])

        assert list(store.range()) == []
        assert store.uncommitted_bytes == 0

    @pytest.mark.spec("KVS-3", "COM-1")
    def test_a_bulk_put_is_pending_like_any_other(self, key_value_stores: KeyValueStores) -> None:
        """It is forgotten by a rollback and kept by a commit."""
        store = key_value_stores.open().store
        store.put_many([b"a", b"b"], [b"1", b"2"])
        store.rollback()
        after_rollback = list(store.range())
        store.put_all([(b"a", b"1"), (b"b", b"2")])
        store.commit({})

        assert after_rollback == []
        assert list(store.read_only().range()) == [(b"a", b"1"), (b"b", b"2")]

    @pytest.mark.spec("COM-16")
    def test_uncommitted_bytes_are_those_of_keys_and_values(
        self, store: KeyValueStore[bytes, bytes]
    ) -> None:
        """Exactly the lengths put, overwritten and deleted ones included, by every way to write."""
        store.put(b"abc", b"defg")
        store.put(b"abc", b"h")
        store.put(b"abc", None)
        store.put_many([b"12", b"3"], [b"4567", None])

        assert store.uncommitted_bytes == 7 + 4 + 3 + 7
        store.put_all([(b"xy", b"z"), (b"xy", None)])
        store.put_if_absent(b"new", b"v")
        store.put_if_absent(b"new", b"not absent")
        store.delete(b"new")
        store.delete(b"missing")

        assert store.uncommitted_bytes == 21 + (3 + 2) + 4 + 3 + 7

    @pytest.mark.spec("COM-15")
    def test_a_closed_store_refuses_every_method(self, store: KeyValueStore[bytes, bytes]) -> None:
        """Even calls that would have nothing to do."""
        store.put(b"a", b"1")
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.put(b"a", b"2"),
            lambda: store.put(b"a", None),
            lambda: store.put_if_absent(b"a", b"2"),
            lambda: store.put_all([]),
            lambda: store.put_many([], []),
            lambda: store.put_many([b"a"], [b"1"]),
            lambda: store.delete(b"a"),
            lambda: store.get(b"a"),
            lambda: store.get_many([]),
            lambda: store.get_many([b"a"]),
            lambda: next(store.range()),
            lambda: next(store.range(b"b", b"a"), None),
            lambda: next(store.prefix_scan(b"")),
            store.approximate_num_entries,
            store.read_only,
        ]
        for call in calls:
            with pytest.raises(StateStoreError, match="closed"):
                call()
