"""A key-value store against a ``dict``."""

from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import rule

from statestores.spi import KeyValue, KeyValueStore, ReadOnlyKeyValueStore
from statestores_conformance.models.store import StoreMachine, keys, readers, values
from statestores_conformance.stores import OpenKeyValueStore

_bounds = st.none() | keys


class KeyValueModel(dict[bytes, bytes]):
    """The latest value of each key."""

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set or delete."""
        if value is None:
            self.pop(key, None)
        else:
            self[key] = value

    def pairs(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Return the pairs from *first* to *last*, inclusive, in order."""
        return sorted(
            (
                pair
                for pair in self.items()
                if (first is None or first <= pair[0]) and (last is None or pair[0] <= last)
            ),
            reverse=reverse,
        )

    def prefixed(self, prefix: bytes, *, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        """Return the pairs whose keys begin with *prefix*, in order."""
        return [pair for pair in self.pairs(reverse=reverse) if pair[0].startswith(prefix)]


class KeyValueMachine(StoreMachine[KeyValueStore[bytes, bytes], KeyValueModel]):
    """Every operation of a key-value store, in any order."""

    def __init__(self, open_store: OpenKeyValueStore, root: Path) -> None:
        self._open_store = open_store
        super().__init__(root)
        self.begin(KeyValueModel())

    def _open(self, path: Path) -> KeyValueStore[bytes, bytes]:
        return self._open_store(path, KeyValue("store"))

    def _facade_of(self, reader: str) -> ReadOnlyKeyValueStore[bytes, bytes]:
        return self._store if reader == "owner" else self._store.read_only(f"read_{reader}")

    def _check(self, store: KeyValueStore[bytes, bytes], committed: KeyValueModel) -> None:
        for reader in (store, store.read_only()):
            assert list(reader.range()) == committed.pairs()
            assert list(reader.range(reverse=True)) == committed.pairs(reverse=True)
            assert [reader.get(key) for key in committed] == list(committed.values())

    def _check_quickly(self) -> None:
        for reader in ("owner", "committed", "uncommitted"):
            assert list(self._facade_of(reader).range()) == self._model_of(reader).pairs()

    @rule(key=keys, value=st.none() | values)
    def put(self, key: bytes, value: bytes | None) -> None:
        """Set or delete."""
        self._store.put(key, value)
        self._model.put(key, value)

    @rule(key=keys, value=values)
    def put_if_absent(self, key: bytes, value: bytes) -> None:
        """Set what is not there."""
        assert self._store.put_if_absent(key, value) == self._model.get(key)
        self._model.setdefault(key, value)

    @rule(entries=st.lists(st.tuples(keys, st.none() | values), max_size=8), columns=st.booleans())
    def put_several(self, entries: list[tuple[bytes, bytes | None]], *, columns: bool) -> None:
        """Put entries or columns, in order."""
        if columns:
            self._store.put_many([key for key, _ in entries], [value for _, value in entries])
        else:
            self._store.put_all(entries)
        for key, value in entries:
            self._model.put(key, value)

    @rule(key=keys)
    def delete(self, key: bytes) -> None:
        """Delete, and learn what was there."""
        assert self._store.delete(key) == self._model.pop(key, None)

    @rule(wanted=st.lists(keys, max_size=6), reader=readers)
    def get(self, wanted: list[bytes], reader: str) -> None:
        """Get one by one, and many at once."""
        facade, model = self._facade_of(reader), self._model_of(reader)
        expected = [model.get(key) for key in wanted]

        assert [facade.get(key) for key in wanted] == expected
        assert facade.get_many(wanted) == expected

    @rule(first=_bounds, last=_bounds, reverse=st.booleans(), reader=readers, hold=st.booleans())
    def read_range(
        self, first: bytes | None, last: bytes | None, reader: str, *, reverse: bool, hold: bool
    ) -> None:
        """Iterate over a range now, or keep the iterator."""
        iterator = self._facade_of(reader).range(first, last, reverse=reverse)
        expected = self._model_of(reader).pairs(first, last, reverse=reverse)
        if hold:
            self._hold(iterator, expected)
        else:
            assert list(iterator) == expected

    @rule(prefix=keys, reverse=st.booleans(), reader=readers, hold=st.booleans())
    def read_prefix(self, prefix: bytes, reader: str, *, reverse: bool, hold: bool) -> None:
        """Iterate over a prefix now, or keep the iterator."""
        iterator = self._facade_of(reader).prefix_scan(prefix, reverse=reverse)
        expected = self._model_of(reader).prefixed(prefix, reverse=reverse)
        if hold:
            self._hold(iterator, expected)
        else:
            assert list(iterator) == expected
