"""Stores of every kind as plain dictionaries, written into state roots and read through files."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import statestores as ss
from statestores.partitioning import partitioner_by_name
from statestores.reading.partition_places import place_of
from statestores.reading.partition_reader import PartitionReader
from statestores.spi.specification import StoreSpecification
from statestores.state_root import StateRoot

Row = tuple[Any, ...]

RETENTION_MS = 1_000
TTL_MS = 500

SPECIFICATIONS: dict[str, StoreSpecification[bytes, bytes]] = {
    "key-value": ss.KeyValue("kept"),
    "crc32": ss.KeyValue("kept", partitioner="crc32"),
    "timestamped": ss.TimestampedKeyValue("kept"),
    "ttl": ss.TimestampedKeyValue("kept", ttl_ms=TTL_MS),
    "versioned": ss.Versioned("kept", history_retention_ms=RETENTION_MS),
    "window": ss.Window("kept", retention_ms=RETENTION_MS, window_size_ms=100),
    "duplicates": ss.Window(
        "kept", retention_ms=RETENTION_MS, window_size_ms=100, retain_duplicates=True
    ),
    "session": ss.Session("kept", retention_ms=RETENTION_MS),
}
"""A store of each kind, and of each way in which one forgets."""


@dataclass
class Model:
    """What a store would hold: one partition for all of it, in a dictionary."""

    specification: StoreSpecification[bytes, bytes]
    rows: dict[Row, bytes | None] = field(default_factory=dict)
    """The value of each key, or of each key and what else tells rows of the kind apart."""
    times: dict[bytes, int] = field(default_factory=dict)
    time_ms: int = -1
    number: int = 0

    def apply(self, key: bytes, value: bytes | None, time_ms: int, start_ms: int) -> None:
        """Take a put, which comes in the order of time for every key."""
        self.time_ms = max(self.time_ms, time_ms)
        match self.specification:
            case ss.TimestampedKeyValue():
                self.times[key] = time_ms
                self.rows[(key,)] = value
            case ss.KeyValue():
                self.rows[(key,)] = value
            case ss.Versioned():
                self.rows[key, time_ms] = value
            case ss.Window(retain_duplicates=True):
                if value is not None:
                    self.rows[key, time_ms, self.number] = value
                    self.number += 1
            case ss.Window():
                self.rows[key, time_ms] = value
            case _:
                self.rows[key, time_ms, start_ms] = value

    def shown(self) -> list[Row]:
        """Return the rows that a reader shows, without numbers that only tell duplicates apart."""
        match self.specification:
            case ss.TimestampedKeyValue(ttl_ms=ttl_ms):
                return sorted(
                    (*row, value, self.times[row[0]])
                    for row, value in self.rows.items()
                    if value is not None
                    and (ttl_ms is None or self.times[row[0]] + ttl_ms > self.time_ms)
                )
            case ss.KeyValue():
                return sorted(
                    (*row, value) for row, value in self.rows.items() if value is not None
                )
            case ss.Versioned():
                return sorted(self._versions())
            case ss.Window():
                alive = self.time_ms - RETENTION_MS
                return sorted(
                    (row[0], value, row[1])
                    for row, value in self.rows.items()
                    if value is not None and row[1] > alive
                )
            case _:
                alive = self.time_ms - RETENTION_MS
                return sorted(
                    (row[0], value, row[2], row[1])
                    for row, value in self.rows.items()
                    if value is not None and row[1] > alive
                )

    def _versions(self) -> Iterator[Row]:
        """Yield the versions that no reader may miss: with a value, and not ended too long ago."""
        by_key: dict[bytes, list[tuple[int, bytes | None]]] = {}
        for (key, time_ms), value in sorted(self.rows.items()):
            by_key.setdefault(key, []).append((time_ms, value))
        for key, versions in by_key.items():
            ends = [*(time_ms for time_ms, _ in versions[1:]), None]
            for (time_ms, value), end in zip(versions, ends, strict=True):
                if value is not None and (end is None or end > self.time_ms - RETENTION_MS):
                    yield key, value, time_ms, end


class Written:
    """A store in a state root, and the model of it."""

    def __init__(
        self,
        root: Path | str,
        specification: StoreSpecification[bytes, bytes],
        backend: str,
        engines: Path | None = None,
        storage_options: Mapping[str, object] | None = None,
    ) -> None:
        """Write into *root*; where that is the URL of an object store, with *engines* there.

        That is reached by *storage_options*.
        """
        self.root = root
        self.storage_options = storage_options
        self.engines = engines
        self.specification = specification
        self.model = Model(specification)
        self.backend = backend
        self.time_ms = 0

    def put(self, random_source: random.Random, count: int, *, keys: int = 40) -> None:
        """Put *count* random changes into the partitions where their keys belong.

        The last one is put into every partition, so that all of them are at the same time.
        """
        state = self._open()
        partitions = state.store("kept").partitions
        partitioner = partitioner_by_name(self.specification.partitioner)
        opened = [
            ss.open_logged_store(
                state,
                "kept",
                number,
                backend=self.backend,
                directory=None if self.engines is None else self.engines / str(number),
            )
            for number in range(partitions)
        ]
        try:
            for number in range(count):
                key = b"key-%d" % random_source.randrange(keys)
                place = partitioner.partition(key, partitions)
                value = (
                    None if random_source.random() < 0.2 else b"%d" % random_source.randrange(1_000)
                )
                self._put(opened[place], key, value, random_source.randrange(16))
                if number % 7 == 0:
                    self._commit(opened[place], random_source)
            for place, each in enumerate(opened):
                self._put(each, _key_of(partitioner, partitions, place), b"last", 0)
                self._commit(each, random_source)
        finally:
            for each in opened:
                each.close()

    def _put(
        self, opened: ss.LoggedStore[Any], key: bytes, value: bytes | None, step_ms: int
    ) -> None:
        store, self.time_ms = opened.store, self.time_ms + step_ms
        start_ms = max(0, self.time_ms - 50)
        match self.specification:
            case ss.TimestampedKeyValue() if value is None:
                store.delete(key)
            case ss.TimestampedKeyValue() | ss.Versioned():
                store.put(key, value, self.time_ms)
            case ss.KeyValue():
                store.delete(key) if value is None else store.put(key, value)
            case ss.Window():
                store.put(key, value, self.time_ms)
            case _:
                store.put(key, start_ms, self.time_ms, value)
        self.model.apply(key, value, self.time_ms, start_ms)

    @staticmethod
    def _commit(opened: ss.LoggedStore[Any], random_source: random.Random) -> None:
        opened.commit({ss.TopicPartition("input", 0): opened.changelog.end_offset})
        if random_source.random() < 0.1:
            opened.snapshot()

    def shown(self) -> list[Row]:
        """Return what readers without a lock see of all partitions."""
        return shown(self.root, self.specification, self._open())

    def _open(self) -> StateRoot:
        return StateRoot.open(self.root, storage_options=self.storage_options)


def _key_of(partitioner: Any, partitions: int, place: int) -> bytes:
    return next(
        key
        for key in (b"last-%d" % number for number in range(100_000))
        if partitioner.partition(key, partitions) == place
    )


def shown(
    root: Path | str,
    specification: StoreSpecification[bytes, bytes],
    opened: StateRoot | None = None,
) -> list[Row]:
    """Return what readers without a lock see of all partitions of the store at *root*.

    By the root as it was *opened*, if that is given.
    """
    state = opened or StateRoot.open(root)
    history = isinstance(specification, ss.Versioned)
    rows: list[Row] = []
    for number in range(state.store("kept").partitions):
        reader = PartitionReader(place_of(state, "kept", number), specification)
        for batch in reader.rows(history=history):
            rows.extend(_rows(batch))
    return sorted(rows, key=repr)


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    names = [name for name in batch.schema.names if name != "sequence"]
    for row in batch.select(names).to_pylist():
        yield tuple(row.values())


def by_repr(rows: list[Row]) -> list[Row]:
    """Return *rows* as `Written.shown` orders them."""
    return sorted(rows, key=repr)


def positions(root: Path) -> list[Mapping[ss.TopicPartition, int]]:
    """Return the position of each partition of the store at *root*."""
    state = StateRoot.open(root)
    entry = state.store("kept")
    return [
        PartitionReader(state.partition("kept", number), entry.specification).position
        for number in range(entry.partitions)
    ]
