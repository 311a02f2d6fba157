"""What Redis leaves to its callers: moments, lost answers, other owners, and what it may forget."""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis
import statestores as ss
from redis_server import RedisServer
from statestores.errors import (
    CapabilityNotSupportedError,
    CommitConflictError,
    FencedError,
    InvalidOptionError,
    StorageError,
    StoreCorruptedError,
    StoreLockedError,
    UnsupportedFormatError,
)
from statestores.spi import KeyValueStore

from statestores_redis import RedisKeyValueStore, open_store, scripts

_LOG = ss.TopicPartition("log", 0)
_ROWS = 2 * scripts.PAGE_ROWS + 500
_KILLS = 40 if os.environ.get("STATESTORES_SOAK") == "1" else 4


@pytest.fixture
def opening(
    server: RedisServer, request: pytest.FixtureRequest
) -> Callable[[], RedisKeyValueStore]:
    """Give what opens the store of this test."""

    def open_one() -> RedisKeyValueStore:
        store = open_store(request.node.name, ss.KeyValue("store"), {"url": server.url})
        assert isinstance(store, RedisKeyValueStore)
        request.addfinalizer(store.close)
        return store

    return open_one


@pytest.fixture
def store(opening: Callable[[], RedisKeyValueStore]) -> RedisKeyValueStore:
    """Open one empty store."""
    return opening()


@pytest.fixture
def full(store: RedisKeyValueStore) -> RedisKeyValueStore:
    """Open one of more rows than two pages have."""
    store.put_many([b"%05d" % number for number in range(_ROWS)], [b"old"] * _ROWS)
    store.commit({_LOG: 0})
    return store


def _cut_off(
    store: RedisKeyValueStore, script: str, monkeypatch: pytest.MonkeyPatch, *, taken: bool
) -> None:
    """Let the connection break in the next call of *script*, before the server has it or after."""
    sound = store._server._scripts[script]

    def broken(**arguments: Any) -> None:
        monkeypatch.undo()
        if taken:
            sound(**arguments)
        raise redis.ConnectionError("cut off")

    monkeypatch.setitem(store._server._scripts, script, broken)


def _changed(key: bytes, number: int) -> bytes:
    return b"%b-%d" % (key, number)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("committed", [True, False], ids=["content", "with pending"])
def test_an_iterator_over_many_pages_stays_at_its_moment(
    full: RedisKeyValueStore, *, reverse: bool, committed: bool
) -> None:
    """Whatever commits replace, remove and add ahead of it, behind it and where it is."""
    pairs = [(b"%05d" % number, b"old") for number in range(_ROWS)]
    if not committed:
        full.put_many([b"00000", b"01000", b"99999"], [None, b"pending", b"pending"])
        pairs = [*pairs[1:1000], (b"01000", b"pending"), *pairs[1001:], (b"99999", b"pending")]
    held = full.range(reverse=reverse)
    seen = []
    for number, (key, value) in enumerate(held):
        seen.append((key, value))
        if number % 400 == 0:
            keys = [b"%05d" % place for place in range(number % 7, _ROWS, 7)]
            full.put_many(keys[::2], [None] * len(keys[::2]))
            full.put_many(keys[1::2], [_changed(each, number) for each in keys[1::2]])
            full.put(b"%05d+" % number, b"new")
            full.commit({})

    assert seen == sorted(pairs, reverse=reverse)


def test_an_iterator_outlasts_a_truncation(full: RedisKeyValueStore) -> None:
    """The server forgets at once, so what is left is read before."""
    held = full.range()
    first = next(held)
    full.truncate()

    assert len([first, *held]) == _ROWS
    assert list(full.range()) == []


@pytest.mark.parametrize("taken", [True, False], ids=["after", "before"])
def test_a_commit_whose_answer_is_lost_is_asked_after(
    store: RedisKeyValueStore, monkeypatch: pytest.MonkeyPatch, *, taken: bool
) -> None:
    """COM-43: if the server has it, it is committed and cannot be rolled back; else it waits."""
    store.put(b"k", b"v")
    store.advance_position({_LOG: 5})
    _cut_off(store, scripts.COMMIT, monkeypatch, taken=taken)
    with pytest.raises(StorageError, match="cut off"):
        store.commit({_LOG: 5})

    assert store.committed_offset(_LOG) == (5 if taken else None)
    assert store.read_only().get(b"k") == (b"v" if taken else None)
    assert store.has_pending_writes is not taken
    if taken:
        with pytest.raises(CommitConflictError):
            store.rollback()
    store.commit({_LOG: 5})
    store.rollback()
    assert list(store.read_only().range()) == [(b"k", b"v")]


@pytest.mark.parametrize("taken", [True, False], ids=["after", "before"])
def test_a_truncation_whose_answer_is_lost_is_completed(
    full: RedisKeyValueStore, monkeypatch: pytest.MonkeyPatch, *, taken: bool
) -> None:
    """COM-42: before anything else, and nothing that was committed since is lost by it."""
    _cut_off(full, scripts.TRUNCATE, monkeypatch, taken=taken)
    with pytest.raises(StorageError, match="cut off"):
        full.truncate()
    full.put(b"k", b"v")
    full.commit({})

    assert list(full.range()) == [(b"k", b"v")]
    assert full.committed_offsets() == {}


def test_what_the_old_connection_still_holds_is_fenced(
    store: RedisKeyValueStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that was in a socket when its owner asked after it must not take effect later."""
    store.put(b"k", b"late")
    epoch, keys = store._server._epoch, store._server._keys
    _cut_off(store, scripts.COMMIT, monkeypatch, taken=False)
    with pytest.raises(StorageError):
        store.commit({})
    store.rollback()
    with pytest.raises(redis.ResponseError, match="FENCED"):
        store._server._scripts[scripts.COMMIT](keys=keys, args=[epoch, 2, 0, 0, 0, b"k", b"late"])

    assert list(store.range()) == []


def test_a_second_owner_is_refused_while_the_first_lives(
    store: RedisKeyValueStore, opening: Callable[[], RedisKeyValueStore]
) -> None:
    """The error says which process has it; no lease has to run out."""
    with pytest.raises(StoreLockedError, match=f"process {os.getpid()}"):
        opening()
    store.close()

    assert opening().is_open


def test_an_owner_that_was_cut_off_is_fenced_by_the_next(
    store: RedisKeyValueStore, opening: Callable[[], RedisKeyValueStore]
) -> None:
    """Its connection ended, so somebody took the store over: its reads and commits end as well."""
    store.put(b"k", b"old")
    store._server.hang_up()
    with opening() as second:
        second.put(b"k", b"new")
        second.commit({})
        calls: list[Callable[[], object]] = [lambda: store.commit({}), lambda: store.get(b"x")]
        for call in calls:
            with pytest.raises(FencedError):
                call()

        assert second.get(b"k") == b"new"


def test_keys_that_somebody_flushed_are_damage(
    store: RedisKeyValueStore, server: RedisServer
) -> None:
    """An empty store would take the place of the lost one."""
    store.put(b"k", b"v")
    store.commit({})
    with redis.Redis.from_url(server.url) as client:
        client.delete(*store._server._keys)
    with pytest.raises(StoreCorruptedError, match="flushed"):
        store.get(b"k")


def test_rows_without_a_description_are_damage(
    store: RedisKeyValueStore, opening: Callable[[], RedisKeyValueStore], server: RedisServer
) -> None:
    """What evicts a key evicts any of them."""
    store.put(b"k", b"v")
    store.commit({})
    store.close()
    with redis.Redis.from_url(server.url) as client:
        client.delete(store._server._keys[0])
    with pytest.raises(StoreCorruptedError, match="no description"):
        opening()


def test_a_later_format_is_refused(
    store: RedisKeyValueStore, opening: Callable[[], RedisKeyValueStore], server: RedisServer
) -> None:
    """COM-14; and the store is as it was."""
    store.close()
    with redis.Redis.from_url(server.url) as client:
        client.hset(store._server._keys[0], "format", "2")
        with pytest.raises(UnsupportedFormatError):
            opening()

        assert client.hget(store._server._keys[0], "format") == b"2"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"appendonly": "no"}, "appendonly yes"),
        ({"maxmemory": "100mb", "maxmemory_policy": "allkeys-lru"}, "noeviction"),
    ],
    ids=["keeps nothing", "evicts"],
)
def test_a_server_that_may_forget_is_refused(
    server: RedisServer, settings: dict[str, str], words: str
) -> None:
    """The error says what to configure."""
    with RedisServer(**settings) as other, pytest.raises(CapabilityNotSupportedError, match=words):
        open_store("forgetful", ss.KeyValue("store"), {"url": other.url})


def test_a_server_that_does_not_wait_promises_less(server: RedisServer) -> None:
    """With ``appendfsync everysec`` only the death of our own process is survived."""
    with RedisServer(appendfsync="everysec") as other:
        options = {"url": other.url, "durability": "process-crash"}
        with open_store("hasty", ss.KeyValue("store"), options) as store:
            store.put(b"k", b"v")
            with pytest.raises(CapabilityNotSupportedError, match="appendfsync always"):
                store.commit({}, durability=ss.Durability.POWER_LOSS)

            assert store.has_pending_writes
            store.commit({})


def test_a_server_that_is_killed_has_every_commit(server: RedisServer) -> None:
    """``kill -9`` at any moment: what returned is there, what did not is there whole or not."""
    dice = random.Random(18)  # noqa: S311  # repeatable, not secret
    with RedisServer() as killed, open_store("k", ss.KeyValue("s"), {"url": killed.url}) as store:
        begun = 0
        store.commit({_LOG: begun})
        for _ in range(_KILLS):
            killer = threading.Timer(dice.random() / 4, killed.kill)
            killer.start()
            begun += 1
            with suppress(StorageError):
                while True:
                    _commit(store, begun)
                    begun += 1
            killer.join()
            killed.start()
            committed = store.committed_offset(_LOG)

            assert committed in (begun - 1, begun)
            assert dict(store.read_only().range()) == dict(_content(committed))
            store.commit({_LOG: begun})


def _commit(store: KeyValueStore[bytes, bytes], number: int) -> None:
    rows = [b"%d" % row for row in range(1 + number % 300)]
    store.put_many(rows, [b"%d" % number] * len(rows))
    store.commit({_LOG: number})


def _content(committed: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield each row with the last commit that wrote it: commit n writes 1 + n % 300 rows."""
    for row in range(300):
        last = max(
            (
                number
                for number in range(max(1, committed - 299), committed + 1)
                if number % 300 >= row
            ),
            default=0,
        )
        if last:
            yield b"%d" % row, b"%d" % last


def test_more_than_a_request_can_hold_is_refused(
    store: RedisKeyValueStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence that says what to do, and everything still pending."""
    monkeypatch.setattr(scripts, "MAX_CHANGES", 3)
    store.put_many([b"a", b"b", b"c", b"d"], [b"v"] * 4)
    with pytest.raises(StorageError, match="commit more often"):
        store.commit({})
    store.put_many([b"a", b"b"], [None, None])

    assert len(store.pending_changes()) == 4


def test_serdes_go_on_top(server: RedisServer) -> None:
    """The door is of bytes: `statestores.serdes.typed` makes the typed store of it."""
    specification = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    with open_store("typed", specification, {"url": server.url}) as counts:
        counts.add_many(["a", "b", "a"], [1, 2, 3])
        counts.commit({})

        assert list(counts.range()) == [("a", 4), ("b", 2)]


@pytest.mark.parametrize("option", [{"url": "localhost"}, {"timeout_ms": "0"}])
def test_options_out_of_range_are_refused(option: dict[str, str]) -> None:
    """Before anything is asked of a server."""
    with pytest.raises(InvalidOptionError, match=next(iter(option))):
        open_store("x", ss.KeyValue("store"), option)
