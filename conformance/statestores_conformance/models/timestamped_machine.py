"""Every operation of a key-value store whose values expire, in any order."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from statestores.spi import TimestampedKeyValue, TimestampedValue
from statestores_conformance.models.store import StoreMachine, keys, readers, values
from statestores_conformance.models.timestamped import TimestampedModel
from statestores_conformance.scripts.script_helpers import longer
from statestores_conformance.subjects.timestamped_stores import (
    OpenTimestampedStore,
    with_its_own_clock,
)

_TTL_MS = 20

_bounds = st.none() | keys
_steps = st.integers(-30, 15)
"""How far a put is ahead of stream time, or behind it."""


class TimestampedMachine(StoreMachine[TimestampedModel]):
    """A store whose values live for 20 ms of stream time, which the puts move."""

    def __init__(self, open_store: OpenTimestampedStore, root: Path) -> None:
        super().__init__(with_its_own_clock(open_store), root)
        self.begin(TimestampedModel(_TTL_MS))

    def specification(self) -> TimestampedKeyValue[bytes, bytes]:
        return TimestampedKeyValue("store", ttl_ms=_TTL_MS)

    def check(self, reader: str, model: TimestampedModel, *, thorough: bool) -> None:
        self.script.lists(model.pairs(), f"{reader}.range")
        if thorough:
            self.script.lists(model.pairs(reverse=True), f"{reader}.range", reverse=True)
            found: Any = [stamped for _, stamped in model.pairs()]
            self.script.gives(found, f"{reader}.get_many", [key for key, _ in model.pairs()])

    def _time(self, step: int) -> int:
        return max(0, (self.model.stream_time_ms or 0) + step)

    @rule(key=keys, value=st.none() | values, step=_steps)
    def put(self, key: bytes, value: bytes | None, step: int) -> None:
        """Set or delete, in order or not, already expired or not."""
        time_ms = self._time(step)
        self.script.do(self.on_store("put"), key, value, time_ms)
        self.model.put(key, value, time_ms)

    @rule(entries=st.lists(st.tuples(keys, st.none() | values, _steps), max_size=40))
    def put_several(self, entries: list[tuple[bytes, bytes | None, int]]) -> None:
        """Put columns, in order."""
        stamped = [(key, value, self._time(step)) for key, value, step in entries]
        columns = [list(column) for column in zip(*stamped, strict=True)] or [[], [], []]
        self.script.do(self.on_store("put_many"), *columns)
        for key, value, time_ms in stamped:
            self.model.put(key, value, time_ms)

    @rule(
        entries=st.lists(st.tuples(keys, st.none() | values, _steps), max_size=8),
        least=st.booleans(),
    )
    def keep_extremes(self, entries: list[tuple[bytes, bytes | None, int]], *, least: bool) -> None:
        """Keep the lesser or the greater values, row by row, while earlier ones expire."""
        rows = [(key, value, self._time(step)) for key, value, step in entries]
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
        self.script.do(self.on_store("min_many" if least else "max_many"), *columns)
        for key, value, time_ms in rows:
            if value is not None:
                found = self.model.get(key) or TimestampedValue(value, time_ms)
                kept = (min if least else max)(found.value, value)
                self.model.put(key, kept, max(found.timestamp_ms or 0, time_ms))

    @rule(wanted=st.lists(keys, max_size=8), step=_steps)
    def update_several(self, wanted: list[bytes], step: int) -> None:
        """Put what a function makes of what several keys have."""
        time_ms = self._time(step)
        self.script.do("append_and_stamp_many", self.store, wanted, time_ms)
        found = {key: self.model.get(key) for key in wanted}
        for key, stamped in found.items():
            self.model.put(key, longer(stamped and stamped.value), time_ms)

    @rule(key=keys, value=values, step=_steps)
    def put_if_absent(self, key: bytes, value: bytes, step: int) -> None:
        """Set what is not there, or has expired."""
        time_ms, found = self._time(step), self.model.get(key)
        self.script.gives(found, self.on_store("put_if_absent"), key, value, time_ms)
        if found is None:
            self.model.put(key, value, time_ms)

    @rule(key=keys)
    def delete(self, key: bytes) -> None:
        """Delete, and learn what was there."""
        self.script.gives(self.model.get(key), self.on_store("delete"), key)
        self.model.put(key, None)

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
