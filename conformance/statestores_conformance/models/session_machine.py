"""A session store against a ``dict`` of keys, starts and ends."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from statestores.errors import InvalidArgumentError
from statestores.spi import Session, SessionRecord
from statestores_conformance.models.retained import RetainedModel
from statestores_conformance.models.retained_machine import (
    RETENTIONS_MS,
    RetainedMachine,
    open_keys,
    open_steps,
    steps,
)
from statestores_conformance.models.store import keys, readers, values
from statestores_conformance.subjects.retained_stores import OpenSessionStore

_Record = SessionRecord[bytes, bytes]
_Row = tuple[bytes, int, int, bytes | None]

_lengths = st.sampled_from([0, 5, 10, 40])
"""The last is longer than the shorter retention: a session's start may be below the horizon."""


@dataclass
class SessionModel(RetainedModel):
    """The value of each key, end and start."""

    def put_session(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> bool:
        """Set or remove, and return whether it was accepted."""
        return self.put(key, end_ms, start_ms, value)

    def fetch(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None:
        """Return the value of exactly this session."""
        return dict(self.visible()).get((key, end_ms, start_ms))

    def sessions(
        self, first_key: bytes | None = None, last_key: bytes | None = None
    ) -> list[_Record]:
        """Return the sessions of the keys, both inclusive, in order."""
        return [
            _Record(key, start_ms, end_ms, value)
            for (key, end_ms, start_ms), value in self.visible()
            if (first_key is None or first_key <= key) and (last_key is None or key <= last_key)
        ]

    def overlapping(
        self,
        earliest_end_ms: int | None = None,
        latest_start_ms: int | None = None,
        first_key: bytes | None = None,
        last_key: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> list[_Record]:
        """Return the sessions of the keys that end and start within the bounds, in order."""
        found = [
            session
            for session in self.sessions(first_key, last_key)
            if (earliest_end_ms is None or session.end_ms >= earliest_end_ms)
            and (latest_start_ms is None or session.start_ms <= latest_start_ms)
        ]
        return found[::-1] if reverse else found

    def ending(
        self,
        first_ms: int | None,
        last_ms: int | None,
        first_key: bytes | None,
        last_key: bytes | None,
        *,
        reverse: bool = False,
    ) -> list[_Record]:
        """Return the sessions of the keys that end within the range, in order."""
        found = [
            session
            for session in self.sessions(first_key, last_key)
            if (first_ms is None or first_ms <= session.end_ms)
            and (last_ms is None or session.end_ms <= last_ms)
        ]
        return found[::-1] if reverse else found


class SessionMachine(RetainedMachine[SessionModel]):
    """Every operation of a session store, in any order and with ends in any order."""

    def __init__(self, open_store: OpenSessionStore, root: Path) -> None:
        super().__init__(open_store, root)

    @initialize(retention_ms=st.sampled_from(RETENTIONS_MS))
    def choose_retention(self, retention_ms: int) -> None:
        """Open the empty store with one of the retentions."""
        self.retention_ms = retention_ms
        self.begin(SessionModel(retention_ms))

    def specification(self) -> Session[bytes, bytes]:
        return Session("store", retention_ms=self.retention_ms)

    def check(self, reader: str, model: SessionModel, *, thorough: bool) -> None:
        self.script.has(model.stream_time_ms, f"{reader}.stream_time_ms")
        self.script.lists(model.overlapping(), f"{reader}.find_all_sessions")
        if thorough:
            backwards = model.overlapping(reverse=True)
            self.script.lists(backwards, f"{reader}.find_all_sessions", reverse=True)
            self.script.lists(model.sessions(), f"{reader}.find_sessions_by_end")
            for key, end_ms, start_ms in model.rows:
                self.script.lists(model.sessions(key, key), f"{reader}.find_sessions", key)
                value = model.fetch(key, start_ms, end_ms)
                self.script.gives(value, f"{reader}.fetch_session", key, start_ms, end_ms)

    def _session(self, step: int, length: int) -> tuple[int, int]:
        """Return start and end of the session that ends *step* ahead of stream time."""
        end_ms = self.time(step)
        return max(0, end_ms - length), end_ms

    @rule(key=keys, step=steps, length=_lengths, value=st.none() | values)
    def put(self, key: bytes, step: int, length: int, value: bytes | None) -> None:
        """Set or remove a session, late ones too, expired ones too."""
        row = key, *self._session(step, length), value
        self.script.gives(self.model.put_session(*row), self.on_store("put"), *row)

    @rule(key=keys, step=steps, length=_lengths)
    def remove(self, key: bytes, step: int, length: int) -> None:
        """Remove a session, whether it is there or not."""
        session = key, *self._session(step, length)
        accepted = self.model.put_session(*session, None)
        self.script.gives(accepted, self.on_store("remove"), *session)

    @rule(entries=st.lists(st.tuples(keys, steps, _lengths, st.none() | values), max_size=8))
    def put_many(self, entries: list[tuple[bytes, int, int, bytes | None]]) -> None:
        """Put columns, in order."""
        rows: list[_Row] = [
            (key, *self._session(step, length), value) for key, step, length, value in entries
        ]
        columns: list[list[Any]] = [[row[place] for row in rows] for place in range(4)]
        accepted = sum(self.model.put_session(*row) for row in rows)
        self.script.gives(accepted, self.on_store("put_many"), *columns)

    @rule(key=keys, step=steps)
    def put_malformed(self, key: bytes, step: int) -> None:
        """Refuse columns whose last session ends before it starts: nothing is taken."""
        end_ms = self.time(step) + 100
        columns = [key, key], [end_ms, end_ms], [end_ms, end_ms - 1], [b"v", b"w"]
        self.script.fails(InvalidArgumentError, self.on_store("put_many"), *columns)

    @rule(wanted=st.lists(st.tuples(keys, steps, _lengths), max_size=6), reader=readers)
    def fetch(self, wanted: list[tuple[bytes, int, int]], reader: str) -> None:
        """Fetch single sessions, one by one and at once."""
        model, call = self.model_of(reader), self.call(reader, "fetch_session")
        asked = [(key, *self._session(step, length)) for key, step, length in wanted]
        found = []
        for session in asked:
            found.append(model.fetch(*session))
            self.script.gives(found[-1], call, *session)
        columns = [[session[place] for session in asked] for place in range(3)]
        self.script.gives(found, self.call(reader, "fetch_many"), *columns)

    @rule(
        key=keys,
        end=open_steps,
        start=open_steps,
        reverse=st.booleans(),
        reader=readers,
        hold=st.booleans(),
    )
    def find_sessions(
        self,
        key: bytes,
        end: int | None,
        start: int | None,
        reader: str,
        *,
        reverse: bool,
        hold: bool,
    ) -> None:
        """Iterate over the sessions of a key now, or keep the iterator."""
        times = self.open_time(end), self.open_time(start)
        self.read(
            self.model_of(reader).overlapping(*times, key, key, reverse=reverse),
            hold=hold,
            call=self.call(reader, "find_sessions"),
            arguments=(key, *times),
            reverse=reverse,
        )

    @rule(
        end=open_steps,
        start=open_steps,
        first=open_keys,
        last=open_keys,
        reverse=st.booleans(),
        reader=readers,
        hold=st.booleans(),
    )
    def find_all_sessions(
        self,
        end: int | None,
        start: int | None,
        first: bytes | None,
        last: bytes | None,
        reader: str,
        *,
        reverse: bool,
        hold: bool,
    ) -> None:
        """Iterate over the sessions of many keys now, or keep the iterator."""
        bounds = (self.open_time(end), self.open_time(start), first, last)
        self.read(
            self.model_of(reader).overlapping(*bounds, reverse=reverse),
            hold=hold,
            call=self.call(reader, "find_all_sessions"),
            arguments=bounds,
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
    def find_sessions_by_end(
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
        """Iterate over the sessions that end within a range now, or keep the iterator."""
        bounds = (*self.range_of(step, other), first, last)
        self.read(
            self.model_of(reader).ending(*bounds, reverse=reverse),
            hold=hold,
            call=self.call(reader, "find_sessions_by_end"),
            arguments=bounds,
            reverse=reverse,
        )
