"""Stores of versions that a seed draws, with what waits for their next commit, as a model has them.

A model is a dictionary of versions by their starts, for each key.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from random import Random

import statestores as ss
from statestores.semantics.versioned.rows import (
    Latest,
    Version,
    Waiting,
    data_key,
    history_key,
    history_row,
    latest_row,
)
from statestores.spi.durability import Durability
from statestores_memory import MemoryEngine

KEYS = [b"", b"a", b"a\x00", b"a\x00b", b"b"]
TIMES = range(14)
CASES = 400

Versions = dict[int, bytes | None]
Record = ss.VersionedRecord[bytes]


class CountedReads(MemoryEngine):
    """An engine that notes which rows are asked for by key, and counts seeks."""

    asked: Sequence[bytes] = ()
    seeks = 0
    reversed_scans = 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Read the rows of *keys*, and note them; nobody asks for none."""
        assert keys
        self.asked = [*self.asked, *keys]
        return super().get_many(keys)

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        """Find the first row, and count."""
        self.seeks += 1
        return super().first(start, stop)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Read rows in order, and count where that is from the highest key down."""
        self.reversed_scans += reverse
        return super().scan(start, stop, reverse=reverse)


@dataclass
class Case:
    """What a store has, what waits for its next commit, and both together."""

    engine: CountedReads
    stored: dict[bytes, Versions]
    pending: dict[bytes, Versions]
    merged: dict[bytes, Versions]
    cached: dict[bytes, Latest | None]
    stream_time_ms: int
    retention_ms: int

    @property
    def horizon_ms(self) -> int:
        """Until when versions have expired at the commit."""
        return self.stream_time_ms - self.retention_ms

    @property
    def waiting(self) -> dict[bytes, Waiting]:
        """The pending versions, as a store holds them."""
        return {
            key: versions if len(versions) > 1 else next(iter(versions.items()))
            for key, versions in self.pending.items()
        }

    def newest(self, key: bytes) -> int:
        """Return when the latest stored version of *key* starts; before every time if none."""
        return max(self.stored.get(key, {}), default=-1)


def drawn_versions(chance: Random, times: range, most: int) -> dict[bytes, Versions]:
    """Draw up to *most* versions of each of some keys, deletions among them."""
    drawn = {
        key: {
            start: chance.choice([None, b"", b"%d" % start])
            for start in chance.sample(times, min(len(times), chance.randint(0, most)))
        }
        for key in KEYS
    }
    return {key: versions for key, versions in drawn.items() if versions}


def ends_of(versions: Versions) -> list[Version]:
    """Return *versions* from the oldest to the latest, which has no end."""
    starts = sorted(versions)
    return [
        Version(start, versions[start], end)
        for start, end in zip_longest(starts, starts[1:], fillvalue=None)
        if start is not None
    ]


def is_live(version: Version, horizon_ms: int) -> bool:
    """Return whether *version* ends above *horizon_ms*."""
    return version.valid_to_ms is None or version.valid_to_ms > horizon_ms


def rows_of(key: bytes, versions: Versions) -> dict[bytes, bytes]:
    """Return the rows of *versions* of *key*, as the specification has them (LAY-7)."""
    *superseded, latest = ends_of(versions)
    rows = {data_key(key): latest_row(latest.valid_from_ms, latest.value)}
    if latest.value is None:  # its marker
        start = latest.valid_from_ms
        rows[history_key(key, start)] = history_row(start, None)
    for start, value, end in superseded:
        assert end is not None
        rows[history_key(key, start)] = history_row(end, value)
    return rows


def drawn_case(chance: Random) -> Case:
    """Draw a store that may have been vacuumed, and puts that it accepts."""
    stored = drawn_versions(chance, TIMES[:10], 4)
    retention = chance.choice([0, 2, 5, 100])
    reached = max((max(versions) for versions in stored.values()), default=0)
    if chance.random() < 0.5:
        stored = {
            key: {
                version.valid_from_ms: version.value
                for version in ends_of(versions)
                if is_live(version, reached - retention)
            }
            for key, versions in stored.items()
        }
    pending = drawn_versions(chance, TIMES[max(0, reached - retention) :], chance.choice([1, 4]))
    both = [*stored.values(), *pending.values()]
    merged = {
        key: stored.get(key, {}) | pending.get(key, {})
        for key in KEYS
        if key in stored or key in pending
    }
    engine = CountedReads.open("unused")
    for key, versions in stored.items():
        engine.apply(rows_of(key, versions), Durability.PROCESS_CRASH)
    cached: dict[bytes, Latest | None] = {
        key: max(stored[key].items(), key=lambda item: item[0]) if key in stored else None
        for key in chance.sample(KEYS, chance.choice([0, 2, len(KEYS)]))
    }
    stream_time = max((max(versions) for versions in both), default=0)
    return Case(engine, stored, pending, merged, cached, stream_time, retention)


def cases() -> Iterator[Case]:
    """Yield many cases, each with an engine that is closed afterwards."""
    for seed in range(CASES):
        case = drawn_case(Random(seed))
        with case.engine:
            yield case
