"""Replaying a changelog gives the store, however often and in whatever pieces."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi import Changes, VersionedStore
from statestores_conformance.many_cases import for_each

KEYS = [b"", b"a", b"a\x00", b"a\x00b", b"ab", b"\x00", b"\xff"]
RETENTION_MS = 50


def new_store() -> EngineVersionedStore:
    """Open an empty versioned store in memory."""
    engine = load_backend("memory").open("unused")
    return open_on_engine(engine, ss.Versioned("s", history_retention_ms=RETENTION_MS))


def split(changes: Changes, sizes: random.Random) -> Iterator[Changes]:
    """Yield *changes* in pieces of random size."""
    times = changes.times_ms or []
    start = 0
    while start < len(changes):
        stop = start + sizes.randint(1, 7)
        yield Changes(changes.keys[start:stop], changes.values[start:stop], times[start:stop])
        start = stop


def history_of(store: VersionedStore[bytes, bytes]) -> dict[bytes, list[tuple[object, ...]]]:
    """Return all that reads can find in *store*."""
    return {key: [tuple(version) for version in store.history(key)] for key in KEYS}


def write(store: EngineVersionedStore, chance: random.Random, commits: int) -> list[Changes]:
    """Write a random, partly late, stream and return what a changelog would hold."""
    log, now = [], 0
    for _ in range(commits):
        for _ in range(chance.randint(0, 12)):
            now += chance.choice([0, 1, 3, 9])
            late = chance.choice([0, 0, 0, 2, RETENTION_MS, RETENTION_MS + 1])
            value = None if chance.random() < 0.3 else b"%d" % chance.randint(0, 9)
            store.put(chance.choice(KEYS), value, max(0, now - late))
        log.append(store.pending_changes())
        store.commit({})
    return log


@pytest.mark.spec("COM-17")
@for_each("seed", range(40))
@for_each("times", [1, 2])
def test_replaying_a_log_in_any_pieces_gives_the_store(seed: int, times: int) -> None:
    """The same reads, after one replay or two.

    The second replay once brought values back: it was unconditional, and met versions whose
    deletion had expired in the meantime. Replay judges lateness as put does.
    """
    chance = random.Random(seed)
    with new_store() as original, new_store() as replayed:
        log = write(original, chance, commits=30)

        for changes in log * times:
            for piece in split(changes, chance):
                replayed.replay(piece)
                if chance.random() < 0.5:
                    replayed.commit({})
        replayed.commit({})

        assert history_of(replayed) == history_of(original)
        assert replayed.stream_time_ms == original.stream_time_ms


@pytest.mark.spec("COM-20")
@for_each("seed", range(20))
def test_loading_committed_content_in_any_pieces_gives_the_store(seed: int) -> None:
    """Content in key order is full of old versions, and none of them is late."""
    chance = random.Random(seed)
    with new_store() as original, new_store() as loaded:
        write(original, chance, commits=30)
        content = original.committed_content()

        for changes in content.changes:
            for piece in split(changes, chance):
                loaded.load(piece, stream_time_ms=content.stream_time_ms)
                if chance.random() < 0.5:
                    loaded.commit({})
        loaded.commit({})

        assert history_of(loaded) == history_of(original)
        assert loaded.stream_time_ms == original.stream_time_ms


@pytest.mark.spec("COM-19", "COM-20")
@for_each("stream_time_ms", [-1, 1 << 63, 1.5, "0"])
@for_each(
    "specification",
    [
        ss.TimestampedKeyValue("s", ttl_ms=10),
        ss.Versioned("s", history_retention_ms=10),
        ss.Window("s", retention_ms=10, window_size_ms=1),
        ss.Session("s", retention_ms=10),
    ],
)
def test_a_content_of_an_impossible_time_is_refused(
    specification: Any, stream_time_ms: Any
) -> None:
    """Nothing of it is loaded: what came later would be judged by that time."""
    columns: dict[str, Any] = {"times_ms": [5]}
    if specification.kind == "session":
        columns["end_times_ms"] = [6]
    elif isinstance(specification, ss.TimestampedKeyValue):
        columns = {"timestamps_ms": [5]}
    with open_on_engine(load_backend("memory").open("unused"), specification) as store:
        with pytest.raises((InvalidArgumentError, InvalidTypeError), match="stream_time_ms"):
            store.load(Changes([b"k"], [b"v"], **columns), stream_time_ms=stream_time_ms)

        assert not store.has_pending_writes
        assert store.stream_time_ms is None


@pytest.mark.spec("COM-17")
def test_a_log_keeps_changes_that_only_seemed_late() -> None:
    """A commit's changes come in time order, not by key.

    ``b`` was put in time, before ``a`` moved stream time on; replayed behind ``a`` it would be
    rejected.
    """
    with new_store() as original, new_store() as replayed:
        original.put(b"a", b"1", 10)
        original.put(b"b", b"2", 10)
        original.put(b"a", b"3", 100)

        replayed.replay(original.pending_changes())

        assert replayed.get(b"b") == original.get(b"b") == (b"2", 10, None)


@pytest.mark.spec("COM-17")
def test_changes_of_another_kind_are_refused(tmp_path: Path) -> None:
    """Changes with times are no key-value store's, and the other way round."""
    engine = load_backend("memory").open(tmp_path)
    with new_store() as versions, open_on_engine(engine, ss.KeyValue("k")) as values:
        with pytest.raises(ValueError, match="carry times"):
            values.replay(Changes([b"k"], [b"v"], [1]))
        with pytest.raises(ValueError, match="carry no times"):
            versions.replay(Changes([b"k"], [b"v"]))
        with pytest.raises(ValueError, match="carry no times"):
            versions.load(Changes([b"k"], [b"v"]))


@pytest.mark.spec("COM-31", "COM-33")
def test_what_is_replayed_replaces_what_was_put_before() -> None:
    """Windows that wait under their start are older than a change that is replayed after them."""
    engine = load_backend("memory").open("unused")
    window = ss.Window("w", retention_ms=RETENTION_MS, window_size_ms=10)
    with open_on_engine(engine, window) as store:
        for key in (b"a", b"b", b"c"):
            store.put(key, b"put", 20)

        store.replay(Changes([b"b"], [b"replayed"], [20]))
        store.commit({})

        assert [store.fetch(key, 20) for key in (b"a", b"b", b"c")] == [b"put", b"replayed", b"put"]
