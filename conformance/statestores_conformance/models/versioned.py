"""A versioned store against a ``dict`` of times for each key, and one stream time."""

from copy import copy
from pathlib import Path
from typing import Any, Self

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from statestores.errors import InvalidArgumentError
from statestores.spi import PutResult, Versioned, VersionedRecord
from statestores_conformance.models.store import StoreMachine, keys, readers, values
from statestores_conformance.subjects.stores import OpenVersionedStore

Record = VersionedRecord[bytes]

_RETENTIONS_MS = [20, 0, 10**6]
"""The first is small compared with the times drawn: the horizon is crossed again and again."""

_times = st.integers(0, 60)
_open_times = st.none() | _times
_open_keys = st.none() | keys


class VersionedModel:
    """For each key a map from timestamps to a value, or ``None`` for a deletion.

    Everything is computed from the map and the horizon, as chapter 4 defines it.
    """

    def __init__(self, history_retention_ms: int) -> None:
        self._retention_ms = history_retention_ms
        self._versions: dict[bytes, dict[int, bytes | None]] = {}
        self.stream_time_ms: int | None = None

    def forget_expired(self) -> None:
        """Forget what no read and no put can still reach, for the sake of long runs."""
        for key, versions in self._versions.items():
            at_horizon = max((time for time in versions if time <= self._horizon_ms), default=0)
            self._versions[key] = {
                time: value for time, value in versions.items() if time >= at_horizon
            }

    def clear(self) -> None:
        """Forget everything."""
        self._versions.clear()
        self.stream_time_ms = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return another one of the same versions, which nobody changes."""
        other = copy(self)
        other._versions = {key: dict(versions) for key, versions in self._versions.items()}  # noqa: SLF001  # one of ours
        return other

    @property
    def _horizon_ms(self) -> int:
        return (self.stream_time_ms or 0) - self._retention_ms

    @property
    def keys(self) -> list[bytes]:
        """Every key that was ever put, in order."""
        return sorted(self._versions)

    def _records(self, key: bytes) -> list[VersionedRecord[bytes | None]]:
        """Return versions and deletions of *key*, oldest first, with their ends."""
        times = sorted(self._versions.get(key, {}))
        return [
            VersionedRecord(self._versions[key][start], start, end)
            for start, end in zip(times, [*times, None][1:], strict=True)
        ]

    def put(self, key: bytes, value: bytes | None, timestamp_ms: int) -> PutResult:
        """Put a version or a deletion."""
        if timestamp_ms < self._horizon_ms:
            return PutResult(accepted=False)
        self._versions.setdefault(key, {})[timestamp_ms] = value
        self.stream_time_ms = max(timestamp_ms, self.stream_time_ms or 0)
        later = [time for time in self._versions[key] if time > timestamp_ms]
        return PutResult(accepted=True, valid_to_ms=min(later, default=None))

    def delete(self, key: bytes, timestamp_ms: int) -> Record | None:
        """Delete from a time on, and return what was valid then."""
        if timestamp_ms < self._horizon_ms:
            return None
        valid = self.get(key, timestamp_ms)
        self.put(key, None, timestamp_ms)
        return valid

    def get(self, key: bytes, as_of_ms: int | None = None) -> Record | None:
        """Return what is valid at a time; below the horizon, only the latest counts."""
        return self._valid_among(self._records(key), as_of_ms)

    def _valid_among(
        self, records: list[VersionedRecord[bytes | None]], as_of_ms: int | None
    ) -> Record | None:
        if as_of_ms is not None and as_of_ms < self._horizon_ms:
            records = records[-1:]
        valid = [record for record in records if as_of_ms is None or record[1] <= as_of_ms]
        if not valid or valid[-1].value is None:
            return None
        value, start, end = valid[-1]
        assert value is not None
        return VersionedRecord(value, start, end)

    def history(
        self, key: bytes, first_ms: int | None, last_ms: int | None, *, reverse: bool = False
    ) -> list[Record]:
        """Return every version that `get` returns at some time in the range, by trying."""
        starts = list(self._versions.get(key, {}))
        first = 0 if first_ms is None else first_ms
        last = max([first, *starts]) if last_ms is None else last_ms
        # Nothing changes between the times at which something begins.
        changes = {first, last, self._horizon_ms, *starts}
        versions = self._records(key)
        found = {self._valid_among(versions, time) for time in changes if first <= time <= last}
        records = [record for record in found if record is not None]
        return sorted(records, key=lambda record: record.valid_from_ms, reverse=reverse)

    def scan_as_of(
        self,
        as_of_ms: int | None,
        first: bytes | None = None,
        last: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> list[tuple[bytes, Record]]:
        """Return each key of the range that has a version then, with it."""
        found = []
        for key in sorted(self._versions, reverse=reverse):
            inside = (first is None or first <= key) and (last is None or key <= last)
            record = self.get(key, as_of_ms) if inside else None
            if record is not None:
                found.append((key, record))
        return found


class VersionedMachine(StoreMachine[VersionedModel]):
    """Every operation of a versioned store, in any order and with times in any order."""

    def __init__(self, open_store: OpenVersionedStore, root: Path) -> None:
        super().__init__(open_store, root)
        self._retention_ms = 0

    @initialize(retention_ms=st.sampled_from(_RETENTIONS_MS))
    def choose_retention(self, retention_ms: int) -> None:
        """Open the empty store with one of the retentions."""
        self._retention_ms = retention_ms
        self.begin(VersionedModel(retention_ms))

    def specification(self) -> Versioned[bytes, bytes]:
        return Versioned("store", history_retention_ms=self._retention_ms)

    def check(self, reader: str, model: VersionedModel, *, thorough: bool) -> None:
        self.script.has(model.stream_time_ms, f"{reader}.stream_time_ms")
        self.script.lists(model.scan_as_of(None), f"{reader}.scan_as_of")
        if thorough:
            for time in (5, 25, 45):
                self.script.lists(model.scan_as_of(time), f"{reader}.scan_as_of", time)
            for key in model.keys:
                self.script.lists(model.history(key, None, None), f"{reader}.history", key)

    @rule(key=keys, value=st.none() | values, time=_times)
    def put(self, key: bytes, value: bytes | None, time: int) -> None:
        """Put a version or a deletion, late ones too."""
        expected = self.model.put(key, value, time)
        self.script.gives(expected, self.on_store("put"), key, value, time)

    @rule(rows=st.lists(st.tuples(keys, st.none() | values, _times), max_size=8))
    def put_many(self, rows: list[tuple[bytes, bytes | None, int]]) -> None:
        """Put columns, in order."""
        columns = [[row[place] for row in rows] for place in range(3)]
        expected = sum(self.model.put(*row).accepted for row in rows)
        self.script.gives(expected, self.on_store("put_many"), *columns)

    @rule(key=keys, time=_times)
    def put_malformed(self, key: bytes, time: int) -> None:
        """Refuse columns whose last time is negative: nothing in them is taken."""
        call = self.on_store("put_many")
        self.script.fails(InvalidArgumentError, call, [key, key], [b"v", b"w"], [time + 100, -1])

    @rule(key=keys, time=_times)
    def delete(self, key: bytes, time: int) -> None:
        """Delete from a time on, and learn what was valid."""
        self.script.gives(self.model.delete(key, time), self.on_store("delete"), key, time)

    @rule(
        wanted=st.lists(st.tuples(keys, _times), max_size=6),
        time=_open_times,
        reader=readers,
    )
    def get(self, wanted: list[tuple[bytes, int]], time: int | None, reader: str) -> None:
        """Get one by one and many together, at one time or each at its own."""
        model = self.model_of(reader)
        names, times = [key for key, _ in wanted], [time for _, time in wanted]
        expected = [model.get(key, time) for key in names]
        for key, record in zip(names, expected, strict=True):
            self.script.gives(record, self.call(reader, "get"), key, time)
        many = self.call(reader, "get_many")
        self.script.gives(expected, many, names, time)
        self.script.gives([model.get(key, at) for key, at in wanted], many, names, times)

    @rule(
        key=keys,
        first=_open_times,
        length=st.none() | st.integers(0, 30),
        reverse=st.booleans(),
        reader=readers,
        hold=st.booleans(),
    )
    def read_history(
        self,
        key: bytes,
        first: int | None,
        length: int | None,
        reader: str,
        *,
        reverse: bool,
        hold: bool,
    ) -> None:
        """Iterate over a history now, or keep the iterator."""
        last = None if length is None else (first or 0) + length
        self.read(
            self.model_of(reader).history(key, first, last, reverse=reverse),
            hold=hold,
            call=self.call(reader, "history"),
            arguments=(key, first, last),
            reverse=reverse,
        )

    @rule(
        time=_open_times,
        first=_open_keys,
        last=_open_keys,
        reverse=st.booleans(),
        reader=readers,
        hold=st.booleans(),
    )
    def scan(
        self,
        time: int | None,
        first: bytes | None,
        last: bytes | None,
        reader: str,
        *,
        reverse: bool,
        hold: bool,
    ) -> None:
        """Iterate over keys as of a time now, or keep the iterator."""
        self.read(
            self.model_of(reader).scan_as_of(time, first, last, reverse=reverse),
            hold=hold,
            call=self.call(reader, "scan_as_of"),
            arguments=(time, first, last),
            reverse=reverse,
        )
