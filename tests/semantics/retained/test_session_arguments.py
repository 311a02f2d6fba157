"""What sessions are asked for and given is judged by every way, also where no engine is asked."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError, StoreClosedError
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.spi import Changes, Session

KEYS: list[Any] = [None, "k", bytearray(b"k")]
TIMES: list[Any] = [-1, MAX_TIME_MS + 1, True, 1.0, "1"]
VALUES: list[Any] = ["v", 1, bytearray(b"v")]
REVERSES: list[Any] = [None, 1, 0]

Call = Callable[..., Any]
Calls = list[tuple[str, Call, dict[str, tuple[Any, list[Any]]]]]


def _reads(reader: Any) -> Calls:
    """Return the reads with good arguments, and with what none of them may be."""
    overlap: dict[str, tuple[Any, list[Any]]] = {
        "earliest_end_ms": (5, TIMES),
        "latest_start_ms": (9, TIMES),
        "reverse": (False, REVERSES),
    }
    key = {"key": (b"k", KEYS)}
    keys: dict[str, tuple[Any, list[Any]]] = {
        "first_key": (b"a", [bad for bad in KEYS if bad is not None]),
        "last_key": (b"z", [bad for bad in KEYS if bad is not None]),
    }
    columns: list[tuple[str, list[Any]]] = [
        ("keys", [[bad] for bad in KEYS] + [[], [b"k", b"k"], b"k"]),
        ("starts_ms", [[bad] for bad in TIMES] + [[], [7], [5, 5], 5]),
        ("ends_ms", [[bad] for bad in TIMES] + [[], [4], [6, 6], 6]),
    ]
    good = {"keys": [b"k"], "starts_ms": [5], "ends_ms": [6]}
    return [
        (
            "fetch_session",
            reader.fetch_session,
            key | {"start_ms": (5, [*TIMES, 7]), "end_ms": (6, [*TIMES, 4])},
        ),
        ("fetch_many", reader.fetch_many, {name: (good[name], bad) for name, bad in columns}),
        ("find_sessions", reader.find_sessions, key | overlap),
        ("find_all_sessions", reader.find_all_sessions, keys | overlap),
        (
            "find_sessions_by_end",
            reader.find_sessions_by_end,
            keys
            | {
                "first_ms": (5, [*TIMES, 10]),
                "last_ms": (9, [*TIMES, 4]),
                "reverse": (False, REVERSES),
            },
        ),
    ]


def _writes(store: Any) -> Calls:
    """Return the same of the writes."""
    columns: dict[str, tuple[Any, list[Any]]] = {
        "keys": ([b"k"], [[bad] for bad in KEYS] + [[], [b"k", b"k"]]),
        "starts_ms": ([5], [[bad] for bad in TIMES] + [[], [7], [5, 5]]),
        "ends_ms": ([6], [[bad] for bad in TIMES] + [[], [4], [6, 6]]),
        "values": ([b"v"], [[bad] for bad in VALUES] + [[], [b"v", b"v"]]),
    }
    session = {
        "key": (b"k", KEYS),
        "start_ms": (5, [*TIMES, 7]),
        "end_ms": (6, [*TIMES, 4]),
    }
    names = {"starts_ms": "times_ms", "ends_ms": "end_times_ms"}
    changes = {names.get(name, name): column for name, column in columns.items()}
    for name in names.values():
        changes[name][1].append(None)
    return [
        ("put", store.put, session | {"value": (b"v", VALUES)}),
        ("remove", store.remove, session),
        ("put_many", store.put_many, columns),
        ("replay", lambda **given: store.replay(Changes(**given)), changes),
        ("load", lambda **given: store.load(Changes(**given)), changes),
        (
            "load up to",
            lambda time: store.load(Changes([], [], [], end_times_ms=[]), stream_time_ms=time),
            {"time": (6, TIMES)},
        ),
    ]


@pytest.fixture
def store() -> Iterator[Any]:
    with open_on_engine(
        load_backend("memory").open("unused"), Session("s", retention_ms=MAX_TIME_MS)
    ) as store:
        store.put(b"k", 5, 6, b"v")
        store.commit({})
        yield store


@pytest.mark.spec("COM-19", "SES-15", "SES-23", "SES-6")
def test_what_is_no_argument_is_refused_by_every_way(store: Any) -> None:
    """At the call, whether the key's sessions are at hand or not; and nothing has changed.

    A search at a negative time found what there is, where a cache answered it.
    """
    for reader in (store, store.read_only(), store.read_only("read_uncommitted")):
        for is_at_hand in (False, True):
            calls = _reads(reader) + (_writes(store) if reader is store else [])
            for name, call, arguments in calls:
                good = {argument: value for argument, (value, _) in arguments.items()}
                for argument, (_, refused) in arguments.items():
                    for bad in refused:
                        store._cache.forget()
                        if is_at_hand:
                            list(store.find_sessions(b"k"))
                        before = store.uncommitted_bytes, dict(store._pending)
                        try:
                            call(**good | {argument: bad})
                        except (InvalidTypeError, InvalidArgumentError) as error:
                            if argument.endswith("_ms") and "times" not in argument:
                                assert argument.replace("s_ms", "") in str(error)  # noqa: PT017
                        else:
                            pytest.fail(f"{name} took {argument}={bad!r}")
                        assert (store.uncommitted_bytes, store._pending) == before
                call(**good)
                store.rollback()


@pytest.mark.spec("SES-3", "SES-10", "SES-15")
def test_the_first_and_the_last_time_are_times(store: Any) -> None:
    """As starts, as ends and as bounds, whether the sessions are at hand or not."""
    expected = [(b"k", 0, 0, b"first"), (b"k", 5, 6, b"v")]
    assert store.put(b"k", 0, 0, b"first")
    store.commit({})
    assert _content(store) == ([0, 6], 6)
    for _ in range(2):
        assert list(store.find_sessions(b"k", 0, MAX_TIME_MS)) == expected
        assert list(store.find_sessions(b"k", 0, 0)) == expected[:1]
        assert store.fetch_session(b"k", 0, 0) == b"first"
    assert store.put(b"k", 1, MAX_TIME_MS, b"long")
    assert store.put(b"k", MAX_TIME_MS, MAX_TIME_MS, b"last")
    expected = [*expected[1:], (b"k", 1, MAX_TIME_MS, b"long")]
    last = (b"k", MAX_TIME_MS, MAX_TIME_MS, b"last")
    for reader in (store, store, store.read_only("read_uncommitted")):
        assert list(reader.find_sessions(b"k", 0, MAX_TIME_MS)) == [*expected, last]
        assert list(reader.find_sessions(b"k", 0, MAX_TIME_MS - 1)) == expected
        assert list(reader.find_sessions(b"k", MAX_TIME_MS, MAX_TIME_MS)) == [expected[1], last]
        assert list(reader.find_all_sessions(MAX_TIME_MS, 1)) == expected[1:]
        assert list(reader.find_sessions_by_end(0, MAX_TIME_MS - 1)) == expected[:1]
        assert list(reader.find_sessions_by_end(MAX_TIME_MS, MAX_TIME_MS)) == [expected[1], last]
    store.commit({})
    assert _content(store) == ([6, MAX_TIME_MS, MAX_TIME_MS], MAX_TIME_MS)


def _content(store: Any) -> tuple[list[int], int | None]:
    """Return the ends in the committed content, and its stream time."""
    content = store.committed_content()
    return [end for changes in content.changes for end in changes.end_times_ms], (
        content.stream_time_ms
    )


@pytest.mark.spec("SES-14", "COM-15")
def test_sessions_at_hand_are_not_found_in_a_closed_store(store: Any) -> None:
    """Neither the first of them, nor the next, nor that there is no further one."""
    store.put(b"k", 7, 8, b"w")
    list(store.find_sessions(b"k"))
    assert b"k" in store._cached
    finds = [
        lambda: store.find_sessions(b"k"),
        lambda: store.find_sessions(b"k", 0, 9),
        store.find_all_sessions,
        store.read_only("read_uncommitted").find_all_sessions,
    ]
    begun = [(find(), taken) for find in finds for taken in range(3)]
    for iterator, taken in begun:
        assert len(list(islice(iterator, taken))) == taken
    store.close()

    for iterator, _ in begun:
        with pytest.raises(StoreClosedError):
            next(iterator)
    for call in (
        lambda: store.fetch_session(b"k", 5, 6),
        lambda: store.put(b"k", 5, 6, b"v"),
        lambda: store.put_many([], [], [], []),
        lambda: store.replay(Changes([], [], [], end_times_ms=[])),
        lambda: store.load(Changes([], [], [], end_times_ms=[])),
        store.read_only,
        lambda: store.find_sessions(b"k"),
        store.find_all_sessions,
        store.find_sessions_by_end,
        lambda: store.fetch_many([], [], []),
        store.pending_changes,
        store.committed_content,
    ):
        with pytest.raises(StoreClosedError):
            call()


@pytest.mark.spec("COM-15", "SES-3")
def test_a_session_that_is_too_late_for_a_closed_store_is_no_late_one() -> None:
    """It was answered that it is too late, and dropped; the store cannot know that any more."""
    store = open_on_engine(load_backend("memory").open("unused"), Session("s", retention_ms=5))
    store.put(b"k", 9, 9, b"v")
    store.close()

    with pytest.raises(StoreClosedError):
        store.put(b"k", 1, 1, b"v")
    with pytest.raises(StoreClosedError):
        store.put_many([b"k"], [1], [1], [b"v"])
    assert store._dropped == 0
