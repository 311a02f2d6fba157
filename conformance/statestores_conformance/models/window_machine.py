"""A window store, with retained duplicates or without, against a ``dict`` of keys and starts."""

from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from statestores.errors import InvalidArgumentError
from statestores.spi import Window, WindowRecord
from statestores_conformance.models.retained import RetainedModel
from statestores_conformance.models.retained_machine import (
    RETENTIONS_MS,
    RetainedMachine,
    open_keys,
    open_steps,
    steps,
)
from statestores_conformance.models.store import keys, readers, values
from statestores_conformance.subjects.retained_stores import WINDOW_SIZE_MS, OpenWindowStore

_Record = WindowRecord[bytes, bytes]
_Row = tuple[bytes, bytes | None, int]


@dataclass
class WindowModel(RetainedModel):
    """The values of each key and start: the last one, or all that were put."""

    retain_duplicates: bool = False
    """Whether a value is added to those of its window."""

    puts: int = 0
    """How many values were put: the sequence of the next duplicate."""

    def put_window(self, key: bytes, value: bytes | None, start_ms: int) -> bool:
        """Set or delete; add if duplicates are kept. Return whether it was accepted."""
        if not self.retain_duplicates:
            return self.put(key, start_ms, 0, value)
        if value is None:
            return False
        self.puts += 1
        return self.put(key, start_ms, self.puts, value)

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        """Return the value that was put last."""
        found = self.windows(start_ms, start_ms, key, key)
        return found[-1].value if found else None

    def windows(
        self,
        first_ms: int | None = None,
        last_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> list[_Record]:
        """Return the windows of the ranges, all four inclusive, in order."""
        found = [
            _Record(key, start_ms, start_ms + WINDOW_SIZE_MS, value)
            for (key, start_ms, _), value in self.visible()
            if (first_ms is None or first_ms <= start_ms)
            and (last_ms is None or start_ms <= last_ms)
            and (first_key is None or first_key <= key)
            and (last_key is None or key <= last_key)
        ]
        return found[::-1] if reverse else found


class WindowMachine(RetainedMachine[WindowModel]):
    """Every operation of a window store, in any order and with starts in any order."""

    def __init__(
        self, open_store: OpenWindowStore, root: Path, *, retain_duplicates: bool = False
    ) -> None:
        super().__init__(open_store, root)
        self._retain_duplicates = retain_duplicates

    @initialize(retention_ms=st.sampled_from(RETENTIONS_MS))
    def choose_retention(self, retention_ms: int) -> None:
        """Open the empty store with one of the retentions."""
        self.retention_ms = retention_ms
        self.begin(WindowModel(retention_ms, retain_duplicates=self._retain_duplicates))

    def specification(self) -> Window[bytes, bytes]:
        return Window(
            "store",
            retention_ms=self.retention_ms,
            window_size_ms=WINDOW_SIZE_MS,
            retain_duplicates=self._retain_duplicates,
        )

    def check(self, reader: str, model: WindowModel, *, thorough: bool) -> None:
        self.script.has(model.stream_time_ms, f"{reader}.stream_time_ms")
        self.script.lists(model.windows(), f"{reader}.fetch_all")
        if thorough:
            self.script.lists(model.windows(reverse=True), f"{reader}.fetch_all", reverse=True)
            for key, start_ms, _ in model.rows:
                expected = model.windows(first_key=key, last_key=key)
                self.script.lists(expected, f"{reader}.fetch_range", key)
                self.script.gives(model.fetch(key, start_ms), f"{reader}.fetch", key, start_ms)

    @rule(key=keys, value=st.none() | values, step=steps)
    def put(self, key: bytes, value: bytes | None, step: int) -> None:
        """Set or delete a window, late ones too, expired ones too."""
        start_ms = self.time(step)
        accepted = self.model.put_window(key, value, start_ms)
        self.script.gives(accepted, self.on_store("put"), key, value, start_ms)

    @rule(entries=st.lists(st.tuples(keys, st.none() | values, steps), max_size=8))
    def put_many(self, entries: list[tuple[bytes, bytes | None, int]]) -> None:
        """Put columns, in order."""
        rows: list[_Row] = [(key, value, self.time(step)) for key, value, step in entries]
        columns = [[row[place] for row in rows] for place in range(3)]
        accepted = sum(self.model.put_window(*row) for row in rows)
        self.script.gives(accepted, self.on_store("put_many"), *columns)

    @rule(key=keys, step=steps)
    def put_malformed(self, key: bytes, step: int) -> None:
        """Refuse columns whose last start is negative: nothing in them is taken."""
        columns = [key, key], [b"v", b"w"], [self.time(step) + 100, -1]
        self.script.fails(InvalidArgumentError, self.on_store("put_many"), *columns)

    @rule(wanted=st.lists(st.tuples(keys, steps), max_size=6), reader=readers)
    def fetch(self, wanted: list[tuple[bytes, int]], reader: str) -> None:
        """Fetch single windows, one by one and at once."""
        model, call = self.model_of(reader), self.call(reader, "fetch")
        starts = [self.time(step) for _, step in wanted]
        found = []
        for (key, _), start_ms in zip(wanted, starts, strict=True):
            found.append(model.fetch(key, start_ms))
            self.script.gives(found[-1], call, key, start_ms)
        many = self.call(reader, "fetch_many")
        self.script.gives(found, many, [key for key, _ in wanted], starts)

    @rule(
        key=keys,
        step=open_steps,
        other=open_steps,
        reverse=st.booleans(),
        reader=readers,
        hold=st.booleans(),
    )
    def fetch_range(
        self,
        key: bytes,
        step: int | None,
        other: int | None,
        reader: str,
        *,
        reverse: bool,
        hold: bool,
    ) -> None:
        """Iterate over the windows of a key now, or keep the iterator."""
        times = self.range_of(step, other)
        self.read(
            self.model_of(reader).windows(*times, key, key, reverse=reverse),
            hold=hold,
            call=self.call(reader, "fetch_range"),
            arguments=(key, *times),
            reverse=reverse,
        )

    @rule(
        step=open_steps,
        other=open_steps,
        first=open_keys,
        last=open_keys,
        reverse=st.booleans(),
        reader=readers,
        hold=st.booleans(),
    )
    def fetch_all(
        self,
        step: int | None,
        other: int | None,
        first: bytes | None,
        last: bytes | None,
        reader: str,
        *,
        reverse: bool,
        hold: bool,
    ) -> None:
        """Iterate over the windows of many keys now, or keep the iterator."""
        bounds = (*self.range_of(step, other), first, last)
        self.read(
            self.model_of(reader).windows(*bounds, reverse=reverse),
            hold=hold,
            call=self.call(reader, "fetch_all"),
            arguments=bounds,
            reverse=reverse,
        )
