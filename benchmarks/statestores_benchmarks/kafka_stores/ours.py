"""Our side of each work, by the names that ``StoreBench.java`` gives them.

A way of a work takes the rows, options of the store and a directory, and prepares a round. Ours has
a write-ahead log and commits every 1,000 rows; Kafka Streams has none and commits at the end.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import statestores as ss
from statestores.arrow.restoring.row_sink import RowSink
from statestores.changelog.rows import batch_from_changes, change_schema
from statestores.spi.specification import StoreSpecification
from statestores_benchmarks.cases import Outcome, Timed
from statestores_benchmarks.data import COMMIT_ROWS
from statestores_benchmarks.kafka_stores.rows import BEGIN_MS, HOUR_MS, VERSIONS, Rows

DAY_MS = 24 * HOUR_MS
GAP_MS = 60_000
_STAMP_BYTES = 8
_LOG = ss.TopicPartition("log", 0)
_KAFKA_S: dict[str, object] = {
    "write_buffer_bytes": 16 << 20,
    "block_cache_bytes": 50 << 20,
    "compression": "none",
}
"""What Kafka Streams gives its stores."""

Options = dict[str, object]
Way = Callable[[Rows, Options, Path], AbstractContextManager[Timed]]
Batch = tuple[list[bytes], list[bytes], int]
"""Keys and values of a commit, and the time of its versions or windows."""

KEY_VALUE = ss.KeyValue("rows")
TIMESTAMPED = ss.TimestampedKeyValue("rows")
VERSIONED = ss.Versioned("versions", history_retention_ms=DAY_MS)
WINDOW = ss.Window("window", retention_ms=DAY_MS, window_size_ms=HOUR_MS)
SESSION = ss.Session("session", retention_ms=DAY_MS)


def opened(specification: StoreSpecification[bytes, bytes], options: Options, path: Path) -> Any:
    """Open a store; its kind is up to who calls."""
    return ss.open_store(
        path / "ours",
        specification,
        backend="rocksdb",
        options=_KAFKA_S | options,
        durability=ss.Durability.PROCESS_CRASH,
    )


def putting(specification: Any, batches: Any, put: Any) -> Way:
    """Return the way that puts *batches* of the rows, with a commit after each."""

    @contextmanager
    def prepared(rows: Rows, options: Options, path: Path) -> Iterator[Timed]:
        given = batches(rows)
        with opened(specification, options, path) as store:
            yield lambda: _load(store, given, put(store), rows.count)

    return prepared


def reading(specification: Any, batches: Any, put: Any, read: Any) -> Way:
    """Return the way that reads, by *read* of store and rows, what was put like that."""

    @contextmanager
    def prepared(rows: Rows, options: Options, path: Path) -> Iterator[Timed]:
        with opened(specification, options, path) as store:
            _load(store, batches(rows), put(store), rows.count)
            yield read(store, rows)

    return prepared


def _load(store: Any, batches: list[Any], put: Callable[..., object], count: int) -> Outcome:
    for number, batch in enumerate(batches):
        put(*batch)
        store.commit({_LOG: number})
    return Outcome(answer=lambda: count)


def restoring(specification: Any, batches: Any) -> Way:
    """Return the way that restores *batches* as a Kafka application does that lacks so many."""

    @contextmanager
    def prepared(rows: Rows, options: Options, path: Path) -> Iterator[Timed]:
        given = [changes for (changes,) in batches(rows)]
        with opened(specification, options, path) as store:
            yield lambda: _restore(store, given, rows.count)

    return prepared


def _restore(store: Any, given: list[ss.Changes], count: int) -> Outcome:
    sink: Any = RowSink.of(store, is_empty=True)  # there is one for each kind
    schema = change_schema(store.specification.kind)
    for number, batch in enumerate(given):
        sink.add(batch_from_changes(schema, batch))
        if sink.is_full:
            sink.commit({_LOG: number})
    sink.commit({_LOG: len(given) - 1})
    return Outcome(answer=lambda: count)


def plain(rows: Rows) -> list[tuple[list[bytes], list[bytes]]]:
    """Return keys and values of each commit."""
    return list(zip(_slices(rows.keys), _slices(rows.values), strict=True))


def dated(rows: Rows) -> list[Batch]:
    """Return keys, values and the time of each commit: version after version of the few keys."""
    return _versions(rows, lambda version: BEGIN_MS + version * HOUR_MS)


def events(rows: Rows) -> list[Batch]:
    """Return the same with other times: every second one of a key is within the gap."""
    return _versions(
        rows, lambda version: BEGIN_MS + version // 2 * HOUR_MS + version % 2 * (GAP_MS // 2)
    )


def _versions(rows: Rows, time_of: Callable[[int], int]) -> list[Batch]:
    keys, values = _slices(rows.keys[: rows.few]), _slices(rows.values[: rows.few])
    few = list(zip(keys, values, strict=True))
    return [(*batch, time_of(version)) for version in range(VERSIONS) for batch in few]


def changes(rows: Rows) -> list[tuple[ss.Changes]]:
    """Return what a changelog says of `plain`."""
    return [(ss.Changes(keys, values),) for keys, values in plain(rows)]


def dated_changes(rows: Rows) -> list[tuple[ss.Changes]]:
    """Return what a changelog says of `dated`."""
    return [(ss.Changes(keys, values, [at] * len(keys)),) for keys, values, at in dated(rows)]


def each(store: Any) -> Callable[..., None]:
    """Return what puts a batch row by row."""

    def put(keys: list[bytes], values: list[bytes], *at: int) -> None:
        one = store.put
        if not at:
            for key, value in zip(keys, values, strict=True):
                one(key, value)
            return
        (time_ms,) = at  # `one(key, value, *at)` makes a tuple for each row: 0.14 µs
        for key, value in zip(keys, values, strict=True):
            one(key, value, time_ms)

    return put


def many(store: Any) -> Callable[..., None]:
    """Return what puts a batch as columns."""

    def put(keys: list[bytes], values: list[bytes], *at: int) -> None:
        store.put_many(keys, values, *([time] * len(keys) for time in at))

    return put


def stamped(store: Any) -> Callable[..., None]:
    """Return what puts a batch row by row, each value behind a time of eight bytes."""
    put = each(store)

    def stamp(keys: list[bytes], values: list[bytes], at: int) -> None:
        time = at.to_bytes(8, "big")
        put(keys, [time + value for value in values], at)

    return stamp


def replay(store: Any) -> Callable[..., None]:
    """Return what replays a batch of a changelog."""
    found: Callable[..., None] = store.replay
    return found


def timestamped(rows: Rows) -> list[tuple[list[bytes], list[bytes], int]]:
    """Return `plain` with a time for each commit."""
    return [(keys, values, BEGIN_MS + at) for at, (keys, values) in enumerate(plain(rows))]


def get(store: Any, rows: Rows) -> Timed:
    """Read values of keys, one by one."""
    asked = [rows.keys[pick] for pick in rows.picks]
    return summed(lambda: sum(len(store.get(key)) for key in asked))


def get_many(store: Any, rows: Rows) -> Timed:
    """Read values of keys, 1,000 at a time."""
    asked = _slices([rows.keys[pick] for pick in rows.picks])
    return summed(lambda: sum(len(value) for keys in asked for value in store.get_many(keys)))


def get_value(store: Any, rows: Rows) -> Timed:
    """Read timestamped values of keys, one by one."""
    return _summed_values(store, rows, rows.picks)


def scan(store: Any, rows: Rows) -> Timed:
    """Read all rows in order."""

    def read() -> int:
        found = 0
        for key, value in store.range():
            found += len(key) + len(value)
        return found

    return summed(read)


def latest(store: Any, rows: Rows) -> Timed:
    """Read the latest versions of keys."""
    return _summed_values(store, rows, rows.few_picks)


def as_of(store: Any, rows: Rows) -> Timed:
    """Read versions of keys as of any time."""
    asked = [(rows.keys[pick], BEGIN_MS + at) for pick, at in picks_and_times(rows)]
    return summed(lambda: sum(len(store.get(key, at).value) for key, at in asked))


def as_of_many(store: Any, rows: Rows) -> Timed:
    """Read versions of keys as of any time, 1,000 at a time."""
    keys = _slices([rows.keys[pick] for pick in rows.few_picks])
    times = _slices([BEGIN_MS + at for at in rows.times])
    asked = list(zip(keys, times, strict=True))
    return summed(
        lambda: sum(len(found.value) for some, at in asked for found in store.get_many(some, at))
    )


def fetch(store: Any, rows: Rows) -> Timed:
    """Read single windows."""
    asked = [(rows.keys[pick], BEGIN_MS + at - at % HOUR_MS) for pick, at in picks_and_times(rows)]
    return summed(lambda: sum(len(store.fetch(key, at)) for key, at in asked))


def fetch_ten(store: Any, rows: Rows) -> Timed:
    """Read all ten windows of each key."""
    keys = rows.keys[: rows.few]

    def read() -> int:
        found = 0
        for key in keys:
            for window in store.fetch_range(key, BEGIN_MS, BEGIN_MS + VERSIONS * HOUR_MS):
                found += len(window.value)
        return found

    return summed(read)


@contextmanager
def merged_sessions(rows: Rows, options: Options, path: Path) -> Iterator[Timed]:
    """Merge events into sessions; every second one of a key follows within the gap."""
    given = events(rows)
    with opened(SESSION, options, path) as store:

        def work() -> Outcome:
            merged = 0
            find, remove, put = store.find_sessions, store.remove, store.put
            for number, (keys, values, at) in enumerate(given):
                for key, value in zip(keys, values, strict=True):
                    start, end = at, at
                    replaced = list(find(key, at - GAP_MS, at + GAP_MS))
                    for found in replaced:
                        start, end = min(start, found.start_ms), max(end, found.end_ms)
                        remove(key, found.start_ms, found.end_ms)
                    put(key, start, end, value)
                    merged += len(replaced)
                store.commit({_LOG: number})
            return Outcome(answer=lambda: merged)

        yield work


def picks_and_times(rows: Rows) -> Iterator[tuple[int, int]]:
    """Return which key, and as of which time, each read asks for."""
    return zip(rows.few_picks, rows.times, strict=True)


def _slices(items: list[Any]) -> list[list[Any]]:
    return [items[first : first + COMMIT_ROWS] for first in range(0, len(items), COMMIT_ROWS)]


def _summed_values(store: Any, rows: Rows, picks: list[int]) -> Timed:
    asked = [rows.keys[pick] for pick in picks]
    return summed(lambda: sum(len(store.get(key).value) for key in asked))


def summed(read: Callable[[], int]) -> Timed:
    """Return the round that is *read*, whose answer is what it sums up."""

    def timed() -> Outcome:
        found = read()
        return Outcome(answer=lambda: found)

    return timed
