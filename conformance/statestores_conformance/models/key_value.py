"""A key-value store against a ``dict``."""

from pathlib import Path
from typing import Any, Self

from hypothesis import strategies as st
from hypothesis.stateful import rule

from statestores.errors import InvalidTypeError
from statestores.spi import KeyValue
from statestores_conformance.models.store import StoreMachine, keys, readers, values
from statestores_conformance.scripts.script_helpers import longer
from statestores_conformance.subjects.stores import OpenKeyValueStore

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

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return another one of the same values, which nobody changes."""
        return type(self)(self)


class KeyValueMachine(StoreMachine[KeyValueModel]):
    """Every operation of a key-value store, in any order."""

    def __init__(self, open_store: OpenKeyValueStore, root: Path) -> None:
        super().__init__(open_store, root)
        self.begin(KeyValueModel())

    def specification(self) -> KeyValue[bytes, bytes]:
        return KeyValue("store")

    def check(self, reader: str, model: KeyValueModel, *, thorough: bool) -> None:
        self.script.lists(model.pairs(), f"{reader}.range")
        if thorough:
            self.script.lists(model.pairs(reverse=True), f"{reader}.range", reverse=True)
            self.script.gives(list(model.values()), f"{reader}.get_many", list(model))
            for key, value in model.items():
                self.script.gives(value, f"{reader}.get", key)

    @rule(key=keys, value=st.none() | values)
    def put(self, key: bytes, value: bytes | None) -> None:
        """Set or delete."""
        self.script.do(self.on_store("put"), key, value)
        self.model.put(key, value)

    @rule(key=keys, value=values)
    def put_if_absent(self, key: bytes, value: bytes) -> None:
        """Set what is not there."""
        self.script.gives(self.model.get(key), self.on_store("put_if_absent"), key, value)
        self.model.setdefault(key, value)

    @rule(entries=st.lists(st.tuples(keys, st.none() | values), max_size=8), columns=st.booleans())
    def put_several(self, entries: list[tuple[bytes, bytes | None]], *, columns: bool) -> None:
        """Put entries or columns, in order."""
        if columns:
            names, given = [key for key, _ in entries], [value for _, value in entries]
            self.script.do(self.on_store("put_many"), names, given)
        else:
            self.script.do(self.on_store("put_all"), entries)
        for key, value in entries:
            self.model.put(key, value)

    @rule(entries=st.lists(st.tuples(keys, st.none() | values), max_size=8), least=st.booleans())
    def keep_extremes(self, entries: list[tuple[bytes, bytes | None]], *, least: bool) -> None:
        """Keep the lesser or the greater values, row by row."""
        names, given = [key for key, _ in entries], [value for _, value in entries]
        self.script.do(self.on_store("min_many" if least else "max_many"), names, given)
        for key, value in entries:
            if value is not None:
                self.model.put(key, (min if least else max)(self.model.get(key, value), value))

    @rule(wanted=st.lists(keys, max_size=8))
    def update_several(self, wanted: list[bytes]) -> None:
        """Put what a function makes of what several keys have."""
        self.script.do("append_to_many", self.store, wanted)
        for key in dict.fromkeys(wanted):
            self.model.put(key, longer(self.model.get(key)))

    @rule(key=keys)
    def put_malformed(self, key: bytes) -> None:
        """Refuse columns whose last value is wrong: nothing in them is taken."""
        call = self.on_store("put_many")
        self.script.fails(InvalidTypeError, call, [key, key], [b"v", "no bytes"])

    @rule(key=keys)
    def delete(self, key: bytes) -> None:
        """Delete, and learn what was there."""
        self.script.gives(self.model.pop(key, None), self.on_store("delete"), key)

    @rule(wanted=st.lists(keys, max_size=6), reader=readers)
    def get(self, wanted: list[bytes], reader: str) -> None:
        """Get one by one, and many together."""
        expected = [self.model_of(reader).get(key) for key in wanted]
        for key, value in zip(wanted, expected, strict=True):
            self.script.gives(value, self.call(reader, "get"), key)
        self.script.gives(expected, self.call(reader, "get_many"), wanted)

    @rule(first=_bounds, last=_bounds, reverse=st.booleans(), reader=readers, hold=st.booleans())
    def read_range(
        self, first: bytes | None, last: bytes | None, reader: str, *, reverse: bool, hold: bool
    ) -> None:
        """Iterate over a range now, or keep the iterator."""
        self.read(
            self.model_of(reader).pairs(first, last, reverse=reverse),
            hold=hold,
            call=self.call(reader, "range"),
            arguments=(first, last),
            reverse=reverse,
        )

    @rule(prefix=keys, reverse=st.booleans(), reader=readers, hold=st.booleans())
    def read_prefix(self, prefix: bytes, reader: str, *, reverse: bool, hold: bool) -> None:
        """Iterate over a prefix now, or keep the iterator."""
        self.read(
            self.model_of(reader).prefixed(prefix, reverse=reverse),
            hold=hold,
            call=self.call(reader, "prefix_scan"),
            arguments=(prefix,),
            reverse=reverse,
        )
