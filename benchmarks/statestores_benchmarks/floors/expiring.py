"""The floor of putting rows that expire: each is written once and deleted once, by the driver.

When rows expire is remembered, so that nothing is searched: the keys of each commit, by its highest
time. A value with a time to live may have been put again since, so its key is looked up once more
before the row is deleted. A window's row expires with its key; its name is written for whoever
opens the store next, in one more row for each commit, which is deleted with the rows that it names.
What is put is in the order of its keys, and what is deleted likewise.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from struct import Struct
from typing import Any

from statestores.semantics.retained.name_groups import group_key, pack_names
from statestores.semantics.retained.rows import SUFFIX_BYTES, TIME_BYTES
from statestores.semantics.rows.layout import DATA
from statestores_benchmarks.cases import Timed
from statestores_benchmarks.data import COMMIT_ROWS, VALUE
from statestores_benchmarks.drivers import RAW, raw_batch
from statestores_benchmarks.floors.batches import by_key

Puts = Sequence[tuple[bytes, int]]
"""Keys and times, ascending by time."""

Begin = Callable[[], tuple[Any, Callable[[], object]]]
"""Begins a batch of the driver, and gives what writes it."""

Calls = tuple[Callable[[bytes, int], object], Callable[[], object]]
"""What puts a row, and what commits."""

_pack_stamp = Struct(">q").pack


@contextmanager
def put_expiring(
    kind: str, backend: str, before: Puts, measured: Puts, lifetime_ms: int, path: Path
) -> Iterator[Timed]:
    """Put what is *measured* where the puts *before* have lived: rows do for *lifetime_ms*."""
    with RAW[backend](path) as database:
        calls = FLOORS[kind](lambda: raw_batch(backend, database), lifetime_ms)
        _put_all(calls, before)
        yield lambda: _put_all(calls, measured)


def _put_all(calls: Calls, puts: Puts) -> None:
    put, commit = calls
    for number, (key, time_ms) in enumerate(puts, 1):
        put(key, time_ms)
        if number % COMMIT_ROWS == 0:
            commit()
    commit()


def _values(begin: Begin, lifetime_ms: int) -> Calls:
    """Return what puts values with a time to live."""
    pending: dict[bytes, bytes] = {}
    reached_ms = 0
    expires_ms: dict[bytes, int] = {}
    due: deque[tuple[int, list[bytes]]] = deque()

    def put(key: bytes, time_ms: int) -> None:
        nonlocal reached_ms
        pending[key] = _pack_stamp(time_ms) + VALUE
        reached_ms = time_ms

    def commit() -> None:
        keys, rows = by_key(pending)
        batch, write = begin()
        deque(map(batch.put, map(DATA.__add__, keys), rows), maxlen=0)
        last_ms = reached_ms + lifetime_ms
        expires_ms.update(dict.fromkeys(keys, last_ms))
        due.append((last_ms, keys))
        gone: list[bytes] = []
        while due[0][0] <= reached_ms:
            end_ms, theirs = due.popleft()
            gone += [key for key in theirs if expires_ms[key] == end_ms]
        gone.sort()
        deque(map(batch.delete, map(DATA.__add__, gone)), maxlen=0)
        deque(map(expires_ms.__delitem__, gone), maxlen=0)
        write()
        pending.clear()

    return put, commit


def _windows(begin: Begin, lifetime_ms: int) -> Calls:
    """Return what puts windows."""
    pending: dict[bytes, bytes] = {}
    reached_ms = 0
    due: deque[tuple[int, bytes, list[bytes]]] = deque()
    numbers = count()

    def put(key: bytes, time_ms: int) -> None:
        nonlocal reached_ms
        name = DATA + key.replace(b"\x00", b"\x00\xff") + time_ms.to_bytes(SUFFIX_BYTES)
        pending[name] = VALUE
        reached_ms = time_ms

    def commit() -> None:
        names, rows = by_key(pending)
        batch, write = begin()
        deque(map(batch.put, names, rows), maxlen=0)
        if names:
            named = group_key(reached_ms.to_bytes(TIME_BYTES), next(numbers))
            batch.put(named, pack_names(names))
            due.append((reached_ms + lifetime_ms, named, names))
        gone: list[bytes] = []
        while due[0][0] <= reached_ms:
            _, named, theirs = due.popleft()
            batch.delete(named)
            gone += theirs
        gone.sort()
        deque(map(batch.delete, gone), maxlen=0)
        write()
        pending.clear()

    return put, commit


FLOORS: dict[str, Callable[[Begin, int], Calls]] = {"ttl": _values, "windows": _windows}
"""What puts rows of each kind and commits them, given how batches begin and how long rows live."""
