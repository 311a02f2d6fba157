"""Kafka's vectors of facades over many partitions, which name their members themselves.

Ours finds the partition of a key by the store's partitioner, so each key is put where it belongs,
whichever member the case names. What follows from that, and the order that Kafka's facades do not
keep, is what `_DIFFERENCES` says.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import (
    InvalidStateStoreError,
    InvalidTypeError,
    UnknownStateStoreError,
)
from statestores.partitioning import partitioner_by_name
from statestores.query import QueryableStores, key_value_store, session_store, window_store
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore
from statestores_conformance.many_cases import for_each

CASES: list[dict[str, Any]] = json.loads(
    (files("statestores_conformance") / "vectors" / "composite.json").read_text("utf-8")
)["cases"]

_DIFFERENCES: dict[str, str] = {
    "composite/window-first-non-empty-member": "QRY-1: a key is in one partition only",
}
"""Cases that cannot be run here, and the requirement that decides."""

_RAISED = {
    "null_key": InvalidTypeError,
    "invalid_state": InvalidStateStoreError,
    "closed": InvalidStateStoreError,
    "no_such_element": StopIteration,
}

_TYPES: dict[str, tuple[Callable[[dict[str, Any]], StoreSpecification[Any, Any]], Any]] = {
    "kv": (lambda config: ss.KeyValue("store", key=ss.utf8, value=ss.utf8), key_value_store()),
    "window": (
        lambda config: ss.Window("store", **config, key=ss.utf8, value=ss.utf8),
        window_store(),
    ),
    "session": (
        lambda config: ss.Session("store", **config, key=ss.utf8, value=ss.int64),
        session_store(),
    ),
}


class _Members:
    """The partitions of one store, as a case describes them."""

    def __init__(self, case: dict[str, Any], root: Path) -> None:
        config = case["config"]
        specification, self.type = _TYPES[config["of"]]
        self._specification = specification(config.get("member_config") or _window_config(config))
        self._available = config.get("available", True)
        self._stubs = {
            number: member["stub_num_entries"]
            for number, member in enumerate(config["members"])
            if "stub_num_entries" in member
        }
        self._count = max(1, len(config["members"]))
        self._partition_of = partitioner_by_name("murmur2").partition
        self.stores = {
            number: ss.open_store(root / str(number), self._specification, backend="memory")
            for number in range(self._count if config["members"] or self._available else 0)
        }

    def holding(self, key: str) -> Any:
        """Return the member to which *key* belongs."""
        return self.stores[self._partition_of(key.encode(), self._count)]

    def unready(self, name: str) -> dict[int, str]:
        """Return nothing: all of them are open."""
        return {}

    def local_stores(
        self, name: str, *, include_stale: bool = False
    ) -> Mapping[int, ReadOnlyStore]:
        """Return the members, as a task manager would."""
        if name != "store":
            raise UnknownStateStoreError(name)
        if not self._available:
            if include_stale:
                return {}
            raise InvalidStateStoreError("the partitions are moving")
        facades = {number: store.read_only() for number, store in self.stores.items()}
        for number, entries in self._stubs.items():
            facades[number] = _Huge(facades[number], entries)
        return facades

    def specification(self, name: str) -> StoreSpecification[Any, Any]:
        """Return what the members are."""
        return self._specification

    def partition_count(self, name: str) -> int:
        """Return how many members there are."""
        return self._count


def _window_config(config: dict[str, Any]) -> dict[str, int]:
    """Return what a case without members leaves out."""
    return {
        "kv": {},
        "window": {"retention_ms": 1_000, "window_size_ms": 10},
        "session": {"retention_ms": 1_000},
    }[config["of"]]


class _Huge(ss.ReadOnlyKeyValueStore[Any, Any]):
    """A store that says it has very many entries."""

    def __init__(self, store: Any, entries: int) -> None:
        self._store = store
        self._entries = entries

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def approximate_num_entries(self) -> int:
        return self._entries

    name = property(lambda self: self._store.name)
    specification = property(lambda self: self._store.specification)
    is_open = property(lambda self: self._store.is_open)
    position = property(lambda self: self._store.position)
    committed_offset = get = get_many = range = prefix_scan = None  # type: ignore[assignment]


def _pairs(found: Iterator[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in found]


def _windows(found: Iterator[Any]) -> list[dict[str, Any]]:
    return [record._asdict() for record in found]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the field names and values of the vectors."""
    names = {"start_ms": "start", "end_ms": "end"}
    return {names.get(name, name): value for name, value in row.items()}


def _expected(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value["int64"] if isinstance(value, dict) else value for name, value in row.items()
    }


READS: dict[tuple[str, str], Callable[[Any, dict[str, Any]], Any]] = {
    ("kv", "get"): lambda store, step: store.get(step["key"]),
    ("kv", "approximate_num_entries"): lambda store, _: store.approximate_num_entries(),
    ("kv", "all"): lambda store, _: _pairs(store.range()),
    ("kv", "reverse_all"): lambda store, _: _pairs(store.range(reverse=True)),
    ("kv", "range"): lambda store, step: _pairs(store.range(step["from"], step["to"])),
    ("kv", "reverse_range"): lambda store, step: _pairs(
        store.range(step["from"], step["to"], reverse=True)
    ),
    ("kv", "prefix_scan"): lambda store, step: _pairs(store.prefix_scan(step["prefix"].encode())),
    ("window", "fetch"): lambda store, step: _windows(
        store.fetch_range(step["key"], step["from"], step["to"])
    ),
    ("window", "backward_fetch"): lambda store, step: _windows(
        store.fetch_range(step["key"], step["from"], step["to"], reverse=True)
    ),
    ("window", "fetch_range"): lambda store, step: _windows(
        store.fetch_all(step["from"], step["to"], step["key_from"], step["key_to"])
    ),
    ("window", "backward_fetch_range"): lambda store, step: _windows(
        store.fetch_all(step["from"], step["to"], step["key_from"], step["key_to"], reverse=True)
    ),
    ("window", "fetch_all"): lambda store, step: _windows(
        store.fetch_all(step["from"], step["to"])
    ),
    ("window", "all"): lambda store, _: _windows(store.fetch_all()),
    ("window", "backward_all"): lambda store, _: _windows(store.fetch_all(reverse=True)),
    ("session", "fetch"): lambda store, step: _windows(store.find_sessions(step["key"])),
    ("session", "fetch_range"): lambda store, step: _windows(
        store.find_all_sessions(None, None, step["key_from"], step["key_to"])
    ),
}


class _Run:
    """One case, step by step."""

    def __init__(self, case: dict[str, Any], members: _Members) -> None:
        self._kind = case["config"]["of"]
        self._members = members
        self._store = QueryableStores(members).store("store", members.type)
        self._opened: dict[str, list[Any]] = {}

    def step(self, step: dict[str, Any]) -> None:
        """Do one step, and compare where the case says what it gives."""
        expected = step.get("expect")
        if isinstance(expected, dict) and "raises" in expected:
            with pytest.raises(_RAISED[expected["raises"]]):
                self._do(step)
            return
        found = self._do(step)
        if "expect" not in step:
            return
        if isinstance(expected, list):
            wanted = self._in_our_order([_expected(row) for row in expected], step["op"])
            rows = [_plain(row) for row in found]
            assert [
                {name: row[name] for name in row if name in other}
                for row, other in zip(rows, wanted, strict=True)
            ] == wanted
        elif isinstance(expected, dict):
            wanted_row = _expected(expected)
            assert {name: _plain(found)[name] for name in wanted_row} == wanted_row
        else:
            assert found == expected

    def _in_our_order(self, rows: list[dict[str, Any]], op: str) -> list[dict[str, Any]]:
        """Return *rows*, which Kafka gives one member after the other, as one store has them."""
        if not all("key" in row for row in rows):
            return rows  # of one key
        backward = op.startswith(("reverse", "backward"))
        return sorted(
            rows,
            key=lambda row: (row["key"].encode(), row.get("end", 0), row.get("start", 0)),
            reverse=backward,
        )

    def _do(self, step: dict[str, Any]) -> Any:
        op = step["op"]
        if op == "put":
            return self._put(step)
        if op == "close":
            return self._members.stores[step["store"]].close()
        if op == "open":
            self._opened[step["it"]] = self._read(step["call"])
            return None
        if op == "has_next":
            return bool(self._opened[step["it"]])
        if op in {"next", "peek_key"}:
            if not self._opened[step["it"]]:
                raise StopIteration
            rows = self._opened[step["it"]]
            return rows[0]["key"] if op == "peek_key" else rows.pop(0)
        return self._read(step)

    def _put(self, step: dict[str, Any]) -> None:
        if not isinstance(step["store"], int):
            return  # of another store
        store = self._members.holding(step["key"])
        value = step["value"]
        if self._kind == "kv":
            store.put(step["key"], value)
        elif self._kind == "window":
            store.put(step["key"], value, step["start"])
        else:
            store.put(step["key"], step["start"], step["end"], value["int64"])
        store.commit({})

    def _read(self, step: dict[str, Any]) -> Any:
        return READS[self._kind, step["op"]](self._store, step)


def test_what_is_decided_otherwise_is_a_case() -> None:
    """An exception for a case that is not there would be one for nothing."""
    assert set(_DIFFERENCES) <= {case["id"] for case in CASES}


@pytest.mark.spec("QRY-1", "QRY-3", "QRY-4")
@for_each("case", [case for case in CASES if case["id"] not in _DIFFERENCES])
def test_vectors(case: dict[str, Any], tmp_path: Path) -> None:
    """Every case, but those that a requirement decides otherwise."""
    members = _Members(case, tmp_path / case["id"])
    try:
        run = _Run(case, members)
        for step in case["steps"]:
            run.step(step)
    finally:
        for store in members.stores.values():
            store.close()


def test_every_difference_is_of_a_case_that_there_is() -> None:
    """The table has no entry that means nothing, and leaves out next to nothing."""
    assert set(_DIFFERENCES) <= {case["id"] for case in CASES}
    assert len(_DIFFERENCES) <= 1
