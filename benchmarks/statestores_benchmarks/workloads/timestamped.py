"""Versioned stores against Quix Streams' timestamped store, which its as-of join reads.

Both keep JSON values with their times, and find the latest one at a time. The key is bytes on both
sides, and everything is within the retention.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import statestores as ss
from statestores.arrow.store_of_bytes import store_of_bytes
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.versioned.rows import HEADER_BYTES, SUFFIX_BYTES, unpack_header
from statestores_benchmarks.cases import (
    STEADY_ROUNDS,
    Case,
    Figure,
    Group,
    Outcome,
    Scale,
    Target,
    Timed,
)
from statestores_benchmarks.contenders import quix
from statestores_benchmarks.data import COMMIT_ROWS, distinct_keys, drawn, times, zipf_keys
from statestores_benchmarks.drivers import RETENTION_MS, raw_rocksdb
from statestores_benchmarks.floors.version_streams import stream_commits
from statestores_benchmarks.retired import asked_with_floor

_VERSIONS = 10
_STEP_MS = 1_000
_OURS = "versioned store, serde json"
_QUIX = "Quix Streams' timestamped store"
_BARE = "rocksdict on the same rows, JSON"
_COMPARED = 500
_AT_LEAST = 5
_new_tuple = tuple.__new__
"""Makes a named tuple in a third of the time that its class takes, as in ours."""

Rows = list[tuple[bytes, int]]


def groups(scale: Scale) -> Iterator[Group]:
    """Yield puts of two streams, and gets at a time."""
    rows = scale.rows(30_000)
    keys = distinct_keys(max(1, rows // _VERSIONS))
    history = [(key, version * _STEP_MS) for version in range(_VERSIONS) for key in keys]
    zipf = [(key, number) for number, key in enumerate(zipf_keys(rows))]
    last = (_VERSIONS - 1) * _STEP_MS
    even = list(zip(drawn(keys, rows), times(rows, last), strict=True))
    late = [(key, last + _STEP_MS) for key in drawn(keys, rows)]
    yield _puts("ten", f"{_VERSIONS} versions a key", history)
    yield _puts("zipf", "versions of 20,000 keys, Zipf", zipf)
    yield _gets("even", "any time, evenly", history, even)
    yield _gets("latest", "the latest or later", history, late)


def _value(timestamp_ms: int) -> dict[str, object]:
    return {"rate": timestamp_ms, "currency": "EUR", "source": "a name of thirty characters or so"}


def _puts(name: str, what: str, rows: Rows) -> Group:
    row = f"put at a time, {what}"
    return Group(
        name=f"timestamped-put-{name}",
        title=f"Put {len(rows):,} JSON values with times: {what}, commit every 1,000",
        operations=len(rows),
        row=row,
        cases=[
            Case(_OURS, partial(_putting, rows), contender="statestores, RocksDB"),
            Case(_QUIX, partial(_quix_putting, rows), contender="Quix Streams", needs=quix.NEEDS),
            Case(_BARE, partial(_bare_putting, rows)),
        ],
        least_rounds=STEADY_ROUNDS,
        targets=asked_with_floor(
            f"timestamped-put-{name}",
            Target(
                case=_OURS,
                base=_QUIX,
                figure=Figure.SPEED_UP,
                at_least=_AT_LEAST,
                row=f"{row}, against Quix Streams' timestamped store",
                floor=_BARE,
            ),
            f"{row}, against the bare driver's calls",
        ),
    )


def _gets(name: str, what: str, rows: Rows, asked: Rows) -> Group:
    row = f"get as of {what}"
    return Group(
        name=f"timestamped-get-{name}",
        title=f"Get {len(asked):,} JSON values as of {what}, {_VERSIONS} versions a key",
        operations=len(asked),
        least_rounds=STEADY_ROUNDS,
        row=row,
        cases=[
            Case(_OURS, partial(_getting, rows, asked), contender="statestores, RocksDB"),
            Case(
                _QUIX,
                partial(_quix_getting, rows, asked),
                contender="Quix Streams",
                needs=quix.NEEDS,
            ),
            Case(_BARE, partial(_bare_getting, rows, asked)),
        ],
        targets=asked_with_floor(
            f"timestamped-get-{name}",
            Target(
                case=_OURS,
                base=_QUIX,
                figure=Figure.SPEED_UP,
                at_least=_AT_LEAST,
                row=f"{row}, against Quix Streams' timestamped store",
                floor=_BARE,
            ),
            f"{row}, against the bare driver's calls",
        ),
    )


def _open(path: Path) -> ss.VersionedStore[bytes, Any]:
    opened = ss.open_store(
        path / "ours",
        ss.Versioned("bench", key=ss.raw, value=ss.json, history_retention_ms=RETENTION_MS),
        backend="rocksdb",
        durability=ss.Durability.PROCESS_CRASH,
    )
    # The overloads of `open_store` cannot tell a serde of `Any` from one of bytes.
    return cast("ss.VersionedStore[bytes, Any]", opened)


def _put(store: ss.VersionedStore[bytes, Any], rows: Rows) -> None:
    put = store.put
    for start in range(0, len(rows), COMMIT_ROWS):
        for key, timestamp_ms in rows[start : start + COMMIT_ROWS]:
            put(key, _value(timestamp_ms), timestamp_ms)
        store.commit({})


def _quix_put(transactions: quix.Transactions, rows: Rows) -> None:
    for start in range(0, len(rows), COMMIT_ROWS):
        put = transactions.current.set_for_timestamp
        for key, timestamp_ms in rows[start : start + COMMIT_ROWS]:
            put(timestamp_ms, _value(timestamp_ms), key)
        transactions.commit()


@contextmanager
def _putting(rows: Rows, path: Path) -> Iterator[Timed]:
    with _open(path) as store:

        def timed() -> Outcome:
            _put(store, rows)
            asked = rows[-_COMPARED:]
            return Outcome(answer=lambda: _found(store, asked))

        yield timed


@contextmanager
def _bare_putting(rows: Rows, path: Path) -> Iterator[Timed]:
    """Give the floor: the rows by the driver's own batches, and their values as JSON."""
    encode = ss.json.encode
    with _open(path) as store:
        commit = stream_commits("rocksdb", store_of_bytes(store))

        def timed() -> Outcome:
            for start in range(0, len(rows), COMMIT_ROWS):
                commit(
                    (key, encode(_value(time_ms)), time_ms)
                    for key, time_ms in rows[start : start + COMMIT_ROWS]
                )
            asked = rows[-_COMPARED:]
            return Outcome(answer=lambda: _found(store, asked))

        yield timed


@contextmanager
def _quix_putting(rows: Rows, path: Path) -> Iterator[Timed]:
    with quix.timestamped(path, RETENTION_MS) as transactions:

        def timed() -> Outcome:
            _quix_put(transactions, rows)
            get = transactions.current.get_latest
            asked = rows[-_COMPARED:]
            return Outcome(answer=lambda: [get(time_ms, key) for key, time_ms in asked])

        yield timed


@contextmanager
def _getting(rows: Rows, asked: Rows, path: Path) -> Iterator[Timed]:
    with _open(path) as store:
        _put(store, rows)
    with _open(path) as store:

        def timed() -> Outcome:
            get = store.get
            for key, time_ms in asked:
                get(key, time_ms)
            return Outcome(answer=lambda: _found(store, asked[:_COMPARED]))

        yield timed


def _found(store: ss.VersionedStore[bytes, Any], asked: Rows) -> list[object]:
    records = [store.get(key, time_ms) for key, time_ms in asked]
    return [None if record is None else record.value for record in records]


@contextmanager
def _bare_getting(rows: Rows, asked: Rows, path: Path) -> Iterator[Timed]:
    """Give the floor: a get, for an earlier time a seek, and the value from its JSON.

    And what any design must do around them: make the keys of the rows from what is asked, see that
    the row which was sought is one of the key, and return the record of the contract.
    """
    with _open(path) as store:
        _put(store, rows)
    with raw_rocksdb(path / "ours" / "engine") as database:
        get, seeker, decode = database.get, database.iter(), ss.json.decode

        def found(key: bytes, time_ms: int) -> ss.VersionedRecord[Any]:
            row = get(DATA + key)
            start: int = unpack_header(row)[0]
            if start <= time_ms:
                return _new_tuple(ss.VersionedRecord, (decode(row[HEADER_BYTES:]), start, None))
            # `history_key`, `escape` and `start_of`, written out, as ours has them.
            prefix = HISTORY + key.replace(b"\x00", b"\x00\xff")
            seeker.seek(prefix + (MAX_TIME_MS - time_ms).to_bytes(SUFFIX_BYTES))
            row_key = seeker.key()
            if not row_key.startswith(prefix):
                raise LookupError(f"{key!r} has no version at {time_ms}")
            row = seeker.value()
            end: int = unpack_header(row)[0]
            start = MAX_TIME_MS - int.from_bytes(row_key[-8:])
            return _new_tuple(ss.VersionedRecord, (decode(row[HEADER_BYTES:]), start, end))

        def timed() -> Outcome:
            for key, time_ms in asked:
                found(key, time_ms)
            return Outcome(answer=lambda: [found(*each)[0] for each in asked[:_COMPARED]])

        yield timed


@contextmanager
def _quix_getting(rows: Rows, asked: Rows, path: Path) -> Iterator[Timed]:
    with quix.timestamped(path, RETENTION_MS) as transactions:
        _quix_put(transactions, rows)
    with quix.timestamped(path, RETENTION_MS) as transactions:
        get = transactions.current.get_latest

        def timed() -> Outcome:
            for key, time_ms in asked:
                get(time_ms, key)
            return Outcome(answer=lambda: [get(time_ms, key) for key, time_ms in asked[:_COMPARED]])

        yield timed
