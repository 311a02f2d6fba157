"""Language-neutral cases: loading them, and running them against a store of bytes.

The cases are in ``vectors/``, with what conformant means and where they come from. A case is a
sequence of steps; each step may say what it must give. `differences` lists the cases in which this
specification differs from their source.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, ClassVar, TypeAlias

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreClosedError
from statestores.spi import (
    Changes,
    KeyValueStore,
    StateStore,
    TopicPartition,
    VersionedRecord,
    VersionedStore,
)

Json: TypeAlias = Any
"""A value as ``json`` gives it."""

Step: TypeAlias = Mapping[str, Json]

_ERRORS: dict[str, type[Exception]] = {
    "null_key": InvalidTypeError,
    "closed": StoreClosedError,
    "illegal_argument": InvalidArgumentError,
    "no_such_element": StopIteration,
}
"""Which of our errors each kind of failure is."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case."""

    id: str
    """Unique among all cases."""

    config: Mapping[str, Json]
    """How to open the store."""

    steps: tuple[Step, ...]
    """What to do, in order, and what it must give."""


def load_cases(name: str) -> list[Case]:
    """Return the cases of the file *name*, in its order."""
    text = (files("statestores_conformance") / "vectors" / f"{name}.json").read_text("utf-8")
    return [
        Case(case["id"], case["config"], tuple(case["steps"])) for case in json.loads(text)["cases"]
    ]


def decode(value: Json) -> bytes | None:
    """Return the bytes of a key or value of a case."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    [(kind, content)] = value.items()
    if kind == "hex":
        return bytes.fromhex(content)
    width = {"int32": 4, "int64": 8}[kind]
    return int(content).to_bytes(width, "big", signed=True)


class Lookahead:
    """An iterator with ``has_next`` and ``peek``, which the cases need and Python lacks."""

    def __init__(self, iterator: Iterator[Json]) -> None:
        self._iterator = iterator
        self._seen: list[Json] = []

    def has_next(self) -> bool:
        """Return whether there is another item."""
        try:
            self.peek()
        except StopIteration:
            return False
        return True

    def peek(self) -> Json:
        """Return the next item, and keep it."""
        if not self._seen:
            self._seen.append(next(self._iterator))
        return self._seen[0]

    def next(self) -> Json:
        """Return the next item."""
        return self._seen.pop() if self._seen else next(self._iterator)


class CaseRunner(ABC):
    """Runs the steps of a case on one store; each operation is the method of its name."""

    commit_each: bool
    """Whether every write is committed immediately, or only where the case says ``flush``."""

    def __init__(self, store: StateStore, *, commit_each: bool) -> None:
        self._store = store
        self.commit_each = commit_each
        self._iterators: dict[str, Lookahead] = {}
        self._logged: dict[bytes, bytes | None] = {}

    _WRITES: ClassVar[frozenset[str]]

    def run(self, case: Case) -> None:
        """Run all steps of *case* and compare what they give."""
        for number, step in enumerate(case.steps):
            where = f"{case.id}, step {number}: {json.dumps(step)}"
            expected = step.get("expect")
            if isinstance(expected, dict) and "raises" in expected:
                with pytest.raises(_ERRORS[expected["raises"]]):
                    self.take(step)
                continue
            actual = self.take(step)
            if "expect" in step:
                assert _matches(actual, expected), f"{where} gave {actual!r}"

    def take(self, step: Step) -> Json:
        """Take one step and return what it gives."""
        operation: Callable[[Step], Json] = getattr(self, step["op"])
        result = operation(step)
        if "record" in step:
            record = step["record"]
            partition = TopicPartition(record["topic"], record["partition"])
            self._store.advance_position({partition: record["offset"]})
        if self.commit_each and step["op"] in self._WRITES:
            self.flush(step)
        return result

    # What every kind does.

    def flush(self, step: Step) -> None:
        """Commit, and log what is committed."""
        changes = self._store.pending_changes()
        self._logged.update(zip(changes.keys, changes.values, strict=True))
        self._store.commit({})

    def close(self, step: Step) -> None:
        """Close the store."""
        self._store.close()

    def restore(self, step: Step) -> None:
        """Replay changelog records, and commit them."""
        self._store.replay(self.changes_of(step["records"]))
        self._store.commit({})

    def changes_of(self, records: list[Step]) -> Changes:
        """Return changelog records as changes."""
        times = [record["timestamp"] for record in records if "timestamp" in record]
        return Changes(
            [key_of_step(record) for record in records],
            [decode(record["value"]) for record in records],
            times or None,
        )

    def wipe(self, step: Step) -> None:
        """Begin again with nothing."""
        self._store.truncate()

    def close_iter(self, step: Step) -> None:
        """Drop a kept iterator."""
        del self._iterators[step["it"]]

    def drain(self, step: Step) -> Json:
        """Return all that a kept iterator still has."""
        iterator = self._iterators[step["it"]]
        remaining = []
        while iterator.has_next():
            remaining.append(iterator.next())
        return remaining

    def position(self, step: Step) -> Json:
        """Return the position as topics of partitions."""
        found: dict[str, dict[str, int]] = {}
        for partition, offset in self._store.position.items():
            found.setdefault(partition.topic, {})[str(partition.partition)] = offset
        return found

    def logged_value(self, step: Step) -> Json:
        """Return the last value of a key in the changelog."""
        key = decode(step["key"])
        assert key is not None
        return self._logged.get(key)

    def logged_tombstone(self, step: Step) -> Json:
        """Return whether the last entry of a key in the changelog is a deletion."""
        key = decode(step["key"])
        assert key is not None
        return key in self._logged and self._logged[key] is None

    @abstractmethod
    def iterate(self, call: Step) -> Iterator[Json]:
        """Return the iterator of a query."""

    def open(self, step: Step) -> None:
        """Begin a query, and keep its iterator."""
        self._iterators[step["it"]] = Lookahead(self.iterate(step["call"]))

    def has_next(self, step: Step) -> Json:
        """Return whether a kept iterator has another item."""
        return self._iterators[step["it"]].has_next()

    def next(self, step: Step) -> Json:
        """Return the next item of a kept iterator."""
        return self._iterators[step["it"]].next()

    def peek_key(self, step: Step) -> Json:
        """Return the key of the next item of a kept iterator."""
        return self._iterators[step["it"]].peek()["key"]


class KeyValueCaseRunner(CaseRunner):
    """Runs cases of the kind ``kv``."""

    _WRITES = frozenset({"put", "put_if_absent", "put_all", "delete"})

    def __init__(self, store: KeyValueStore[bytes, bytes], *, commit_each: bool) -> None:
        super().__init__(store, commit_each=commit_each)
        self._kv = store

    def put(self, step: Step) -> None:
        """Set or delete."""
        self._kv.put(key_of_step(step), decode(step["value"]))

    def put_if_absent(self, step: Step) -> Json:
        """Set what is not there."""
        return self._kv.put_if_absent(key_of_step(step), decode(step["value"]) or b"")

    def put_all(self, step: Step) -> None:
        """Set or delete several."""
        self._kv.put_all(
            [(key_of_step(entry), decode(entry["value"])) for entry in step["entries"]]
        )

    def delete(self, step: Step) -> Json:
        """Delete."""
        return self._kv.delete(key_of_step(step))

    def get(self, step: Step) -> Json:
        """Return the value of a key."""
        return self._kv.get(key_of_step(step))

    def approximate_num_entries(self, step: Step) -> Json:
        """Return the estimate."""
        return self._kv.approximate_num_entries()

    def count(self, step: Step) -> Json:
        """Count by iterating."""
        return sum(1 for _ in self._kv.range())

    def iterate(self, call: Step) -> Iterator[Json]:
        reverse = call["op"].startswith("reverse_")
        if call["op"] == "prefix_scan":
            pairs = self._kv.prefix_scan(decode(call["prefix"]) or b"")
        else:
            first, last = decode(call.get("from")), decode(call.get("to"))
            pairs = self._kv.range(first, last, reverse=reverse)
        return ({"key": key, "value": value} for key, value in pairs)

    def range(self, step: Step) -> Json:
        """Return the entries of a query."""
        return list(self.iterate(step))

    reverse_range = all = reverse_all = prefix_scan = range  # noqa: A003  # the names of the cases


class VersionedCaseRunner(CaseRunner):
    """Runs cases of the kind ``versioned``."""

    _WRITES = frozenset({"put", "delete"})

    def __init__(
        self,
        store: VersionedStore[bytes, bytes],
        *,
        commit_each: bool,
        reopen: Callable[[], VersionedStore[bytes, bytes]],
    ) -> None:
        super().__init__(store, commit_each=commit_each)
        self._versions = store
        self._reopen = reopen
        self._dropped = 0

    def reopen(self, step: Step) -> None:
        """Close the store and open it again."""
        self._store.close()
        self._store = self._versions = self._reopen()

    def put(self, step: Step) -> Json:
        """Put a version or a deletion."""
        result = self._versions.put(key_of_step(step), decode(step["value"]), step["timestamp"])
        self._dropped += not result.accepted
        return {"accepted": result.accepted, "valid_to": result.valid_to_ms}

    def delete(self, step: Step) -> Json:
        """Delete from a time on."""
        before = self._versions.uncommitted_bytes
        valid = self._versions.delete(key_of_step(step), step["timestamp"])
        self._dropped += self._versions.uncommitted_bytes == before
        return _version(valid)

    def get(self, step: Step) -> Json:
        """Return the latest version, or the one as of a time."""
        return _version(self._versions.get(key_of_step(step), step.get("as_of")))

    def iterate(self, call: Step) -> Iterator[Json]:
        reverse = call["order"] != "asc"
        records = self._versions.history(
            key_of_step(call), call["from"], call["to"], reverse=reverse
        )
        return (_version(record) for record in records)

    def history(self, step: Step) -> Json:
        """Return the versions in a range of time."""
        return list(self.iterate(step))

    def dropped_records(self, step: Step) -> Json:
        """Return how many writes came too late."""
        return self._dropped


def key_of_step(step: Step) -> bytes:
    """Return the key of a step; a null one goes to the store, which must refuse it."""
    key: Any = decode(step["key"])
    return key  # type: ignore[no-any-return]  # see above


def _version(record: VersionedRecord[bytes] | None) -> Json:
    """Return a version in the form of the cases."""
    if record is None:
        return None
    value, valid_from_ms, valid_to_ms = record
    return {"value": value, "timestamp": valid_from_ms, "valid_to": valid_to_ms}


def _matches(actual: Json, expected: Json) -> bool:
    """Return whether *actual* is what a case expects: for an object, the fields that it lists."""
    if isinstance(actual, bytes):
        return actual == decode(expected)
    if isinstance(expected, dict) and isinstance(actual, list):
        left = list(expected["unordered"])
        for item in actual:
            found = [number for number, other in enumerate(left) if _matches(item, other)]
            if not found:
                return False
            del left[found[0]]
        return not left
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(_matches(actual.get(name), value) for name, value in expected.items())
    if isinstance(expected, list) and isinstance(actual, list):
        return len(actual) == len(expected) and all(map(_matches, actual, expected))
    return bool(actual == expected)
