"""Updating many keys at once in a key-value store."""

from collections.abc import Callable
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError, StateStoreError
from statestores.spi import KeyValueStore
from statestores_conformance.many_cases import for_each
from statestores_conformance.stores.key_value.writes import COLUMNS, KeyValueOfThreePairs


def returning(updated: Any) -> Callable[[list[Any], list[Any]], Any]:
    """Return the function of keys and values that returns *updated*."""
    return lambda _, __: updated


_METHODS = ("add_many", "min_many", "max_many")


class KeyValueUpdateTests(KeyValueOfThreePairs):
    """Columns that are merged into what is there."""

    @pytest.mark.spec("KVS-19", "KVS-17")
    @for_each("form", COLUMNS.values())
    def test_extremes_are_kept_row_by_row(
        self, abc: KeyValueStore[bytes, bytes], form: Callable[[list[Any]], Any]
    ) -> None:
        """Of a key that comes several times each row counts, and a new key takes its row's."""
        abc.put_many([b"a", b"b", b"c", b"d"], [b"1", b"2", b"3", None])
        keys = [b"a", b"b", b"a", b"d", b"d"]
        abc.min_many(form(keys), form([b"3", b"0", b"2", b"5", b"4"]))
        least = list(abc.range())
        abc.max_many(form(keys), form([b"3", b"0", b"2", b"5", b"4"]))

        assert least == [(b"a", b"1"), (b"b", b"0"), (b"c", b"3"), (b"d", b"4")]
        assert list(abc.range()) == [(b"a", b"3"), (b"b", b"0"), (b"c", b"3"), (b"d", b"5")]

    @pytest.mark.spec("KVS-20")
    def test_nothing_is_merged_with_nothing(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """A row without a value makes no value, and leaves the one that there is."""
        abc.max_many([b"a", b"x", b"b", b"b"], [None, None, b"9", None])

        assert list(abc.range()) == [(b"a", b"1"), (b"b", b"9"), (b"c", b"3")]

    @pytest.mark.spec("KVS-21")
    def test_a_function_gets_each_key_once(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """In the order in which they first occur, with what they have; what it returns is put."""
        given = []

        def update(keys: list[bytes], values: list[bytes | None]) -> list[bytes | None]:
            given.append((keys, values))
            return [b"new", None, b"2", b"x"]

        abc.update_many(iter([b"d", b"a", b"d", b"b", b"c", b"a"]), update)
        abc.update_many([], update)

        assert given == [([b"d", b"a", b"b", b"c"], [None, b"1", b"2", b"3"])]
        assert list(abc.range()) == [(b"b", b"2"), (b"c", b"x"), (b"d", b"new")]

    @pytest.mark.spec("KVS-22", "COM-19")
    @for_each(
        ("keys", "values"),
        [
            ([b"a", None], [b"9", b"9"]),
            ([b"a", "b"], [b"9", b"9"]),
            ([b"a", None], [b"9", None]),
            ([b"a", b"x"], [b"9", "9"]),
            ([b"a", b"a"], [b"9", 9]),
            ([[b"a"]], [b"9"]),
            (b"a", [b"9"]),
        ],
    )
    def test_one_malformed_row_refuses_them_all(
        self, abc: KeyValueStore[bytes, bytes], keys: Any, values: Any
    ) -> None:
        """Nothing is merged, and no function is asked."""
        before = list(abc.range()), abc.uncommitted_bytes
        for method in _METHODS:
            with pytest.raises(InvalidTypeError):
                getattr(abc, method)(keys, values)

        assert (list(abc.range()), abc.uncommitted_bytes) == before

    @pytest.mark.spec("KVS-22")
    def test_a_function_that_fails_changes_nothing(self, abc: KeyValueStore[bytes, bytes]) -> None:
        """It raises, or returns too little, too much, or what is no value."""

        def failing(_: list[bytes], __: list[bytes | None]) -> list[bytes | None]:
            raise ZeroDivisionError

        returned: list[Any] = [[b"1"], [b"1"] * 3, [b"1", "2"], None, b"12"]
        before = list(abc.range()), abc.uncommitted_bytes
        with pytest.raises(ZeroDivisionError):
            abc.update_many([b"a", b"b"], failing)
        for updated in returned:
            with pytest.raises((InvalidTypeError, InvalidArgumentError)):
                abc.update_many([b"a", b"b"], returning(updated))
        with pytest.raises(InvalidTypeError):
            abc.update_many([b"a", None], lambda keys, _: keys)  # type: ignore[list-item]  # refused
        with pytest.raises(InvalidTypeError):
            abc.update_many([b"a"], None)  # type: ignore[arg-type]  # refused
        for method in _METHODS:
            with pytest.raises(InvalidArgumentError):
                getattr(abc, method)([b"a", b"b"], [b"9"])

        assert (list(abc.range()), abc.uncommitted_bytes) == before

    @pytest.mark.spec("KVS-23")
    @for_each("amount", [b"\x00\x00\x00\x00\x00\x00\x00\x01", b"", 1])
    def test_bytes_do_not_add_up(self, abc: KeyValueStore[bytes, bytes], amount: Any) -> None:
        """Whatever they stand for: to the store they are bytes, of keys old and new."""
        before = list(abc.range())
        for key in (b"a", b"new"):
            with pytest.raises(InvalidTypeError):
                abc.add_many([key], [amount])

        assert list(abc.range()) == before

    @pytest.mark.spec("KVS-24")
    def test_a_batch_is_a_change_for_each_key(self, store: KeyValueStore[bytes, bytes]) -> None:
        """That of its last value, in the order in which keys first occur; a rollback forgets it."""
        store.put_many([b"a", b"b"], [b"5", b"5"])
        store.commit({})
        keys = [b"c", b"b", b"c", b"a", b"b"]
        store.max_many(keys, [b"1", b"6", b"3", b"1", b"7"])
        changes = store.pending_changes()
        store.rollback()

        assert list(changes.keys) == [b"c", b"b", b"a"]
        assert list(changes.values) == [b"3", b"7", b"5"]
        assert list(store.range()) == [(b"a", b"5"), (b"b", b"5")]

    @pytest.mark.spec("COM-15", "KVS-22")
    def test_a_closed_store_updates_nothing(self, store: KeyValueStore[bytes, bytes]) -> None:
        """Not even nothing."""
        store.close()
        for keys in ([], [b"a"]):
            for method in _METHODS:
                with pytest.raises(StateStoreError, match="closed"):
                    getattr(store, method)(keys, keys)
            with pytest.raises(StateStoreError, match="closed"):
                store.update_many(keys, lambda _, values: values)
