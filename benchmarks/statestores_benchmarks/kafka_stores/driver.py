"""The floor of each work: the same rows by the driver's own calls, and nothing around them.

Ways are those of `ours`; the names are the same. A floor is what any design must do, and nothing
besides: it leaves the rows that ours leaves, but for those that a commit has about itself, and its
reads give what a caller asks for. So keys that lie before something else in a row's key are escaped
(`escape`, written out, as ours has it), and a value that has a time comes with it, as the named
tuple of the contract.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Any

from rocksdict import IngestExternalFileOptions, SstFileWriter, WriteBatch

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.retained.rows import SUFFIX_BYTES, pack_suffix_and_number
from statestores.semantics.rows.escaped_keys import escape
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.spi.records import Changes, TimestampedValue, VersionedRecord
from statestores_benchmarks.cases import Outcome, Timed
from statestores_benchmarks.floors.batches import beginner, by_key
from statestores_benchmarks.floors.versions import Versions, commit_versions
from statestores_benchmarks.kafka_stores.ours import (
    DAY_MS,
    GAP_MS,
    SESSION,
    VERSIONED,
    Options,
    Way,
    dated,
    events,
    opened,
    picks_and_times,
    summed,
)
from statestores_benchmarks.kafka_stores.rows import BEGIN_MS, HOUR_MS, VERSIONS, Rows
from statestores_rocksdb.database import driver_options

_STAMP_BYTES = 8

_unpack_stamp = Struct(">q").unpack_from

_new_tuple: Any = tuple.__new__
"""Makes a named tuple in a third of the time that its class takes, as in ours."""


def fetch(store: Any, rows: Rows) -> Timed:
    """Read the same windows by the driver's own call, with the making of each row's key."""
    asked = [(rows.keys[pick], BEGIN_MS + at - at % HOUR_MS) for pick, at in picks_and_times(rows)]
    get = store._engine._get  # noqa: SLF001  # the driver's, and nothing around it
    return summed(
        lambda: sum(
            len(get(DATA + key.replace(b"\x00", b"\x00\xff") + at.to_bytes(SUFFIX_BYTES)))
            for key, at in asked
        )
    )


def fetch_ten(store: Any, rows: Rows) -> Timed:
    """Read the same ten windows by the driver's raw iterator, without making anything of them."""
    keys = rows.keys[: rows.few]
    low, high = BEGIN_MS.to_bytes(SUFFIX_BYTES), (BEGIN_MS + DAY_MS).to_bytes(SUFFIX_BYTES)
    cursor = store._engine._database.iter()  # noqa: SLF001  # as above

    def read() -> int:
        found = 0
        for key in keys:
            prefix = DATA + key.replace(b"\x00", b"\x00\xff")
            stop = prefix + high
            cursor.seek(prefix + low)
            row_key = cursor.key()
            while row_key is not None and row_key < stop:
                found += len(cursor.value())
                cursor.next()
                row_key = cursor.key()
        return found

    return summed(read)


def get(store: Any, rows: Rows) -> Timed:
    """Read values of keys by the driver's own call."""
    asked = [rows.keys[pick] for pick in rows.picks]
    get = store._engine._get  # noqa: SLF001  # as above
    return summed(lambda: sum(len(get(DATA + key)) for key in asked))


def get_value(store: Any, rows: Rows) -> Timed:
    """The same of values with a time: named tuples of both."""
    asked = [rows.keys[pick] for pick in rows.picks]
    get = store._engine._get  # noqa: SLF001  # as above

    def read() -> int:
        found = 0
        for key in asked:
            row = get(DATA + key)
            stamped = _new_tuple(TimestampedValue, (row[_STAMP_BYTES:], _unpack_stamp(row)[0]))
            found += len(stamped.value)
        return found

    return summed(read)


def scan(store: Any, rows: Rows) -> Timed:
    """Read all rows in order by the driver's own iterator, and cut the namespace off each key."""
    items = store._engine._database.items  # noqa: SLF001  # as above

    def read() -> int:
        found = 0
        for key, value in items(from_key=DATA):
            if key[:1] != DATA:
                break
            found += len(key[1:]) + len(value)
        return found

    return summed(read)


def putting(
    specification: Any, batches: Any, *, is_named: bool = False, is_stamped: bool = False
) -> Way:
    """Return the way that writes the same rows by the driver's own batches.

    They are in a dictionary first, by a line for each, since one commit may bring a row twice, and
    are written in the order of their keys. Those of windows have their time in the key, and are
    named in one more row for each commit; if each row *is_stamped*, the time is in front of its
    value.
    """

    @contextmanager
    def prepared(rows: Rows, options: Options, path: Path) -> Iterator[Timed]:
        given = batches(rows)
        with opened(specification, options, path) as store:
            write = store._engine._write  # noqa: SLF001  # as above

            def work() -> Outcome:
                for keys, values, *at in given:
                    pending: dict[bytes, bytes] = {}
                    for key, value in zip(keys, values, strict=True):
                        pending[key] = value  # noqa: PERF403  # one line each, as puts come
                    suffix = at[0].to_bytes(SUFFIX_BYTES) if is_named else b""
                    header = at[0].to_bytes(_STAMP_BYTES) if is_stamped else b""
                    ordered, stored = by_key(pending)
                    if is_named:
                        names = [
                            DATA + key.replace(b"\x00", b"\x00\xff") + suffix for key in ordered
                        ]
                    else:
                        names = [DATA + key for key in ordered]
                    if is_stamped:
                        stored = [header + value for value in stored]
                    batch = WriteBatch(raw_mode=True)
                    deque(map(batch.put, names, stored), maxlen=0)
                    if is_named:
                        batch.put(HISTORY + suffix, b"".join(names))
                    write(batch)
                return Outcome(answer=lambda: rows.count)

            yield work

    return prepared


@contextmanager
def put_versions(rows: Rows, options: Options, path: Path) -> Iterator[Timed]:
    """Write the rows of versions by the driver's own batches: the latest, and the one before it.

    They are in a dictionary first, by a line for each; then a commit is `commit_versions`.
    """
    given = dated(rows)
    with opened(VERSIONED, options, path) as store:
        get, begin = store._engine._get, beginner("rocksdb", store)  # noqa: SLF001  # as above

        def work() -> Outcome:
            latest: Versions = {}
            for keys, values, at in given:
                pending: Versions = {}
                for key, value in zip(keys, values, strict=True):
                    pending[key] = at, value
                commit_versions(get, begin, latest, pending)
            return Outcome(answer=lambda: rows.count)

        yield work


@contextmanager
def merged_sessions(rows: Rows, options: Options, path: Path) -> Iterator[Timed]:
    """Write the rows of merged sessions by the driver's own batches; what came before is at hand.

    So nothing is searched. A session that is extended is deleted and put. Those of a commit are
    named in one more row.
    """
    given = events(rows)
    with opened(SESSION, options, path) as store:
        write = store._engine._write  # noqa: SLF001  # as above

        def work() -> Outcome:
            merged = 0
            newest: dict[bytes, tuple[int, int]] = {}
            for keys, values, at in given:
                batch = WriteBatch(raw_mode=True)
                put, delete = batch.put, batch.delete
                names: list[bytes] = []
                for key, value in zip(keys, values, strict=True):
                    start, prefix = at, DATA + key.replace(b"\x00", b"\x00\xff")
                    if key in newest and newest[key][1] >= at - GAP_MS:
                        start, end = newest[key]
                        delete(prefix + pack_suffix_and_number(0, end, start))
                        merged += 1
                    newest[key] = start, at
                    name = prefix + pack_suffix_and_number(0, at, start)
                    names.append(name)
                    put(name, value)
                put(HISTORY + at.to_bytes(SUFFIX_BYTES), b"".join(names))
                write(batch)
            return Outcome(answer=lambda: merged)

        yield work


def restoring(specification: Any, batches: Any) -> Way:
    """Return the way that brings the rows of a changelog by the driver's own sorted file.

    They are made and sorted before.
    """

    @contextmanager
    def prepared(rows: Rows, options: Options, path: Path) -> Iterator[Timed]:
        pairs = sorted(_rows_of([changes for (changes,) in batches(rows)]).items())
        with opened(specification, options, path) as store:
            engine: Any = store._engine  # noqa: SLF001  # as above

            def work() -> Outcome:
                file = str(path / "sorted")
                writer = SstFileWriter(driver_options(engine._options))  # noqa: SLF001  # likewise
                writer.open(file)
                for key, value in pairs:
                    writer[key] = value
                writer.finish()
                moving = IngestExternalFileOptions()
                moving.set_move_files(v=True)
                engine._database.ingest_external_file([file], moving)  # noqa: SLF001  # likewise
                return Outcome(answer=lambda: rows.count)

            yield work

    return prepared


def _rows_of(given: list[Changes]) -> dict[bytes, bytes]:
    """Return what changes leave; those with times leave the latest version of a key and others."""
    rows: dict[bytes, bytes] = {}
    latest: dict[bytes, tuple[int, bytes]] = {}
    for changes in given:
        if changes.times_ms is None:
            rows.update((DATA + key, value) for key, value in _pairs(changes))
            continue
        for (key, value), at in zip(_pairs(changes), changes.times_ms, strict=True):
            header = at.to_bytes(_STAMP_BYTES)
            rows[DATA + key] = header + value
            if key in latest:
                before, old = latest[key]
                suffix = (MAX_TIME_MS - before).to_bytes(SUFFIX_BYTES)
                rows[HISTORY + escape(key) + suffix] = header + old
            latest[key] = at, value
    return rows


def _pairs(changes: Changes) -> Iterator[tuple[bytes, bytes]]:
    values: Any = changes.values  # none is a deletion
    return zip(changes.keys, values, strict=True)


def latest(store: Any, rows: Rows) -> Timed:
    """Read the latest versions of keys by the driver's own call, with their starts."""
    asked = [rows.keys[pick] for pick in rows.few_picks]
    get = store._engine._get  # noqa: SLF001  # as above

    def read() -> int:
        found = 0
        for key in asked:
            row = get(DATA + key)
            version = _new_tuple(VersionedRecord, (row[_STAMP_BYTES:], _unpack_stamp(row)[0], None))
            found += len(version.value)
        return found

    return summed(read)


def as_of(store: Any, rows: Rows) -> Timed:
    """Read the same versions by the driver's seeks; the latest ones are in a dictionary.

    Each is a value with the times from and until when it is valid.
    """
    asked = [(rows.keys[pick], BEGIN_MS + at) for pick, at in picks_and_times(rows)]
    last_ms = BEGIN_MS + (VERSIONS - 1) * HOUR_MS
    few = zip(rows.keys[: rows.few], rows.values[: rows.few], strict=True)
    latest = {key: (last_ms, value) for key, value in few}
    cursor = store._engine._database.iter()  # noqa: SLF001  # as above

    def read() -> int:
        found = 0
        for key, at in asked:
            start, value = latest[key]
            if start <= at:
                found += len(_new_tuple(VersionedRecord, (value, start, None)).value)
                continue
            escaped = key.replace(b"\x00", b"\x00\xff")
            cursor.seek(HISTORY + escaped + (MAX_TIME_MS - at).to_bytes(SUFFIX_BYTES))
            row_key = cursor.key()
            if row_key is not None:
                row = cursor.value()
                start = MAX_TIME_MS - int.from_bytes(row_key[-_STAMP_BYTES:])
                ended = row[_STAMP_BYTES:], start, _unpack_stamp(row)[0]
                found += len(_new_tuple(VersionedRecord, ended).value)
        return found

    return summed(read)
