"""Running the cases of the kinds ``window`` and ``session``, and every one of them as a test."""

from collections.abc import Iterator
from typing import Any

import pytest

from statestores.spi import Changes, SessionRecord, SessionStore, WindowRecord, WindowStore
from statestores_conformance.subjects.retained_stores import SessionStores, WindowStores
from statestores_conformance.vectors.cases import Case, CaseRunner, Json, Step, decode, key_of_step
from statestores_conformance.vectors.tests import name_of, requirements_of, run_cases


class _RetainedCaseRunner(CaseRunner):
    """Runs cases in which the key of an item is all of it except its value."""

    _WRITES = frozenset({"put", "remove"})

    def peek_key(self, step: Step) -> Json:
        """Return the next item of a kept iterator; a case lists the fields that it compares."""
        return self._iterators[step["it"]].peek()


class WindowCaseRunner(_RetainedCaseRunner):
    """Runs cases of the kind ``window``."""

    def __init__(self, store: WindowStore[bytes, bytes], *, commit_each: bool) -> None:
        super().__init__(store, commit_each=commit_each)
        self._windows = store
        self._dropped = 0
        self._log: list[tuple[bytes, Json]] = []

    def put(self, step: Step) -> None:
        """Set or delete."""
        value = decode(step["value"])
        self._dropped += not self._windows.put(key_of_step(step), value, step["start"])

    def flush(self, step: Step) -> None:
        """Commit, and log what is committed."""
        changes = self._windows.pending_changes()
        times = changes.times_ms or ()
        for key, value, start_ms in zip(changes.keys, changes.values, times, strict=True):
            self._log.append((key, {"start": start_ms, "value": value}))
        self._windows.commit({})

    def changes_of(self, records: list[Step]) -> Changes:
        return Changes(
            [key_of_step(record) for record in records],
            [decode(record["value"]) for record in records],
            [record["start"] for record in records],
        )

    def changelog(self, step: Step) -> Json:
        """Return what the changelog has of a key."""
        return [entry for key, entry in self._log if key == decode(step["key"])] or None

    def dropped_records(self, step: Step) -> Json:
        """Return how many puts came too late."""
        return self._dropped

    def fetch_one(self, step: Step) -> Json:
        """Return the value of one window."""
        return self._windows.fetch(key_of_step(step), step["start"])

    def iterate(self, call: Step) -> Iterator[Json]:
        reverse = call["op"].startswith("backward_")
        query = call["op"].removeprefix("backward_")
        times = max(0, call.get("from", 0)), call.get("to")
        if query == "fetch":
            records = self._windows.fetch_range(key_of_step(call), *times, reverse=reverse)
        else:
            keys = decode(call.get("key_from")), decode(call.get("key_to"))
            records = self._windows.fetch_all(*times, *keys, reverse=reverse)
        return map(_window, records)

    def fetch(self, step: Step) -> Json:
        """Return what a query gives."""
        return list(self.iterate(step))

    backward_fetch = fetch_range = backward_fetch_range = fetch
    fetch_all = backward_fetch_all = all = backward_all = fetch


class SessionCaseRunner(_RetainedCaseRunner):
    """Runs cases of the kind ``session``."""

    def __init__(self, store: SessionStore[bytes, bytes], *, commit_each: bool) -> None:
        super().__init__(store, commit_each=commit_each)
        self._sessions = store
        self._dropped = 0

    def put(self, step: Step) -> None:
        """Set or remove."""
        times = step["start"], step["end"]
        self._dropped += not self._sessions.put(key_of_step(step), *times, decode(step["value"]))

    def remove(self, step: Step) -> None:
        """Remove one session."""
        self._sessions.remove(key_of_step(step), step["start"], step["end"])

    def dropped_records(self, step: Step) -> Json:
        """Return how many puts came too late."""
        return self._dropped

    def fetch_session(self, step: Step) -> Json:
        """Return the value of one session."""
        return self._sessions.fetch_session(key_of_step(step), step["start"], step["end"])

    def iterate(self, call: Step) -> Iterator[Json]:
        reverse = call["op"].startswith("backward_")
        query = call["op"].removeprefix("backward_")
        # Kafka has no open bound: its callers pass one below 0 to mean none.
        bounds = max(0, call.get("earliest_end", 0)), call.get("latest_start")
        if query == "find_by_end":
            ends = bounds[0], call["latest_end"]
            records = self._sessions.find_sessions_by_end(*ends, reverse=reverse)
        elif query.endswith("_range"):
            keys = decode(call["key_from"]), decode(call["key_to"])
            records = self._sessions.find_all_sessions(*bounds, *keys, reverse=reverse)
        else:
            records = self._sessions.find_sessions(key_of_step(call), *bounds, reverse=reverse)
        return map(_session, records)

    def find(self, step: Step) -> Json:
        """Return what a query gives."""
        return list(self.iterate(step))

    fetch = backward_fetch = fetch_range = backward_fetch_range = find
    backward_find = find_range = backward_find_range = find_by_end = find


def _window(record: WindowRecord[bytes, bytes]) -> Json:
    """Return a window in the form of the cases."""
    key, start_ms, end_ms, value = record
    return {"key": key, "start": start_ms, "end": end_ms, "value": value}


def _session(record: SessionRecord[bytes, bytes]) -> Json:
    """Return a session in the form of the cases."""
    key, start_ms, end_ms, value = record
    return {"key": key, "start": start_ms, "end": end_ms, "value": value}


class WindowVectorTests:
    """The cases of the kind ``window``."""

    @pytest.mark.spec("WIN-2", "WIN-3", "WIN-4", "WIN-6", "WIN-8", "WIN-9", "WIN-10", "WIN-11")
    @pytest.mark.spec(*requirements_of("window"))
    def test_vectors(self, window_stores: WindowStores) -> None:
        """Each case holds while its writes are pending, and when each is committed immediately."""

        def run(case: Case) -> None:
            fields = ("retention_ms", "window_size_ms", "retain_duplicates")
            config: dict[str, Any] = {field: case.config[field] for field in fields}
            for commit_each in (False, True):
                name = name_of(case, commit_each=commit_each)
                with window_stores.open(name, **config).store as store:
                    WindowCaseRunner(store, commit_each=commit_each).run(case)

        run_cases(run, "window")


class SessionVectorTests:
    """The cases of the kind ``session``."""

    @pytest.mark.spec("SES-2", "SES-3", "SES-4", "SES-5", "SES-8", "SES-9", "SES-10", "SES-11")
    @pytest.mark.spec(*requirements_of("session"))
    def test_vectors(self, session_stores: SessionStores) -> None:
        """Each case holds while its writes are pending, and when each is committed immediately."""

        def run(case: Case) -> None:
            retention_ms = case.config["retention_ms"]
            for commit_each in (False, True):
                name = name_of(case, commit_each=commit_each)
                with session_stores.open(name, retention_ms=retention_ms).store as store:
                    SessionCaseRunner(store, commit_each=commit_each).run(case)

        run_cases(run, "session")
