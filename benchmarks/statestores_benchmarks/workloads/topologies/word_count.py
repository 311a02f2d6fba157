"""Topologies at work: word count against Quix Streams, records against batches, and restarts.

Ours reads durable topics and writes durable topics, on RocksDB, in one process: a commit is one of
stores, outputs and position. Quix Streams has memory in the place of its broker, see
`contenders.quix_runtime`; neither waits for the disk.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any, NamedTuple

import pyarrow.compute as pc

import statestores as ss
from statestores.processing import Record, Topic, Topology
from statestores.processing.local import LocalRunner, LocalTopics
from statestores.processing.runtime import TaskRuntime
from statestores.serdes.typed_stores.processor_store import for_processors
from statestores_benchmarks.cases import Case, Figure, Group, Metric, Outcome, Scale, Target, Timed
from statestores_benchmarks.contenders import quix_runtime
from statestores_benchmarks.data import zipf_keys

_LINE_WORDS = 10
_COMMIT_RECORDS = 10_000
_COMPARED = 100

_QUIX = "Quix Streams, broker in memory"
_RECORDS = "statestores, record by record"
_RUNS = "statestores, every update, in runs"
_CHOSEN = "statestores, functions in batches"
_BATCHES = "statestores, expressions in batches"

_LINES = Topic("lines", value=ss.utf8)
_WORDS = Topic("words", key=ss.utf8)
_COUNTS = Topic("counts", key=ss.utf8, value=ss.int64)
_STORE = ss.KeyValue("words", key=ss.utf8, value=ss.int64)


def groups(scale: Scale) -> Iterator[Group]:
    """Yield word count, what the runtime adds to a store, and restarts."""
    words = scale.large_rows(1_000_000, quick=200_000)
    yield _word_count(words, line_words=_LINE_WORDS)
    yield _word_count(words, line_words=1)
    yield _overhead(scale.rows(100_000))
    yield _restart(scale)


# Word count.


class _Way(NamedTuple):
    """How our runtime goes about it."""

    expressions: bool
    """Whether words and keys are said as Arrow expressions, or as Python functions."""

    least_column_rows: int
    """From how many records on a batch is processed as columns."""

    least_run_rows: int = 256
    """From how many records on a batch is processed as a run, of which every update comes out."""


_NEVER = 1 << 60

_WAYS = {
    _RECORDS: _Way(expressions=False, least_column_rows=_NEVER, least_run_rows=_NEVER),
    _RUNS: _Way(expressions=False, least_column_rows=_NEVER),
    _CHOSEN: _Way(expressions=False, least_column_rows=1_000),
    _BATCHES: _Way(expressions=True, least_column_rows=1_000),
}


def _word_count(words_count: int, *, line_words: int) -> Group:
    """Return the group: of lines that are split, or of records with a word each as their key."""
    words = [each.decode() for each in zipf_keys(words_count)]
    texts = [" ".join(words[at : at + line_words]) for at in range(0, len(words), line_words)]
    compared = sorted(set(words))[:_COMPARED]
    is_split = line_words > 1
    what = f"words of {len(texts):,} lines" if is_split else "records, each with a word as its key"
    of = "of lines" if is_split else "of records"
    targets = [
        (_RECORDS, _QUIX, 3, f"word count {of}, one by one, durable topics, against Quix Streams"),
        (_RUNS, _QUIX, 3, f"word count {of}, every update, in runs, against Quix Streams"),
        (_CHOSEN, _QUIX, 3, f"word count {of}, as the runtime chooses, against Quix Streams"),
        (_BATCHES, _RECORDS, 4, f"word count {of} in batches of 10,000, against one by one"),
    ]
    return Group(
        name="processing-lines" if is_split else "processing-words",
        title=(
            f"Count {len(words):,} {what}, Zipf, RocksDB, updates to a topic, a commit every "
            f"{_COMMIT_RECORDS:,} records"
        ),
        operations=len(words),
        metric=Metric.PROCESS,
        cases=[
            *(
                Case(name, partial(_ours, texts, compared, way, is_split=is_split))
                for name, way in _WAYS.items()
            ),
            Case(
                _QUIX,
                partial(_quix, texts, compared, is_split=is_split),
                needs=quix_runtime.NEEDS,
            ),
        ],
        targets=[
            Target(case=case, base=base, figure=Figure.SPEED_UP, at_least=bound, row=row)
            for case, base, bound, row in targets
        ],
    )


def word_count(*, expressions: bool, is_split: bool) -> Topology:
    """Return the topology: words of lines, by functions or by expressions, counted."""
    topology = Topology("words")
    words: Any
    if not is_split:
        words = topology.stream(_WORDS).group_by_key()
    else:
        lines = topology.stream(_LINES)
        split: Any = (
            pc.utf8_split_whitespace(pc.field("value"))
            if expressions
            else lambda record: record.value.split()
        )
        words = lines.flat_map(split, value=ss.utf8).group_by(
            "value" if expressions else lambda record: record.value, key=ss.utf8
        )
    words.count(_STORE).to(_COUNTS)
    return topology


@contextmanager
def _ours(
    texts: list[str], compared: list[str], way: _Way, path: Path, *, is_split: bool
) -> Iterator[Timed]:
    with LocalTopics(path / "topics", durability=ss.Durability.PROCESS_CRASH) as topics:
        source: Any = topics.topic(_LINES if is_split else _WORDS)
        source.append(
            Record(b"" if is_split else text, text if is_split else b"", number)
            for number, text in enumerate(texts)
        )
    runner = LocalRunner(
        word_count(expressions=way.expressions, is_split=is_split),
        path / "state",
        path / "topics",
        backend="rocksdb",
        durability=ss.Durability.PROCESS_CRASH,
        commit_interval_ms=3_600_000,
        commit_records=_COMMIT_RECORDS,
        least_column_rows=way.least_column_rows,
        least_run_rows=way.least_run_rows,
        until="idle",
    )

    def timed() -> Outcome:
        runner.run()
        return Outcome(answer=partial(_counted, path, compared))

    yield timed


def _counted(path: Path, compared: list[str]) -> list[int | None]:
    """Return the last update of each word that is compared."""
    wanted = set(compared)
    found: dict[str, int] = {}
    with LocalTopics(path / "topics") as topics:
        for row in topics.topic(_COUNTS).read():
            if row.record.key in wanted:
                found[row.record.key] = row.record.value
    return [found.get(word) for word in compared]


@contextmanager
def _quix(texts: list[str], compared: list[str], path: Path, *, is_split: bool) -> Iterator[Timed]:
    messages = [
        quix_runtime.BrokerMessage(
            "source", b"" if is_split else text.encode(), text.encode(), number, number
        )
        for number, text in enumerate(texts)
    ]
    app, produced = quix_runtime.application(path, messages, commit_every=_COMMIT_RECORDS)
    source = app.topic("source", key_deserializer="string", value_deserializer="string")
    counts = app.topic("counts", key_serializer="string", value_serializer="integer")
    words = app.dataframe(source)
    if is_split:  # a topic of one partition: it needs no repartition topic
        words = words.apply(str.split, expand=True)
        words = words.group_by(_itself, name="word", key_serializer="string")
    words.apply(_count, stateful=True).to_topic(counts)

    def timed() -> Outcome:
        app.run()
        return Outcome(answer=partial(_produced, produced, compared))

    yield timed


def _produced(produced: quix_runtime.Produced, compared: list[str]) -> list[int | None]:
    found = dict(produced.records)
    return [int.from_bytes(found[word.encode()], "big") for word in compared]


def _itself(word: str) -> str:
    return word


def _count(word: str, state: Any) -> int:
    del word
    found: int = state.get("count", 0) + 1
    state.set("count", found)
    return found


# What the runtime adds to the calls of a store.


def _overhead(rows: int) -> Group:
    keys = zipf_keys(rows)
    over = "runtime over its store"
    return Group(
        name="processing-overhead",
        title=f"Count {rows:,} records of Zipf keys, RocksDB: the runtime, and get and put alone",
        operations=rows,
        cases=[
            Case("get and put of the typed store", partial(_bare, keys)),
            Case("TaskRuntime.process", partial(_process, keys)),
            Case(over, partial(_difference, keys)),
        ],
        targets=[
            Target(
                case=over,
                figure=Figure.QUANTITY,
                quantity="µs a record over the store's own calls",
                at_most=1.5,
                row="what the runtime adds to a record's get and put",
            )
        ],
    )


_COUNTED = ss.TimestampedKeyValue("counted", key=ss.utf8, value=ss.int64)


class _Nowhere:
    """A log that keeps nothing."""

    def emit(self, topic: str, record: Any, partition: int | None) -> None:
        """Take it."""


@contextmanager
def _counting(path: Path) -> Iterator[tuple[TaskRuntime, Any, Callable[[], None]]]:
    topology = Topology("counting")
    topology.stream(Topic("in", key=ss.utf8, value=ss.int64)).group_by_key().count(_COUNTED)
    (part,) = topology.build().sub_topologies
    stores = {
        each.name: ss.open_store(
            path / each.name, each, backend="rocksdb", durability=ss.Durability.PROCESS_CRASH
        )
        for each in part.stores
    }
    try:
        inside = {name: for_processors(store, "by the test") for name, store in stores.items()}
        runtime = TaskRuntime(part, 0, inside, _Nowhere(), wall_ms=0)

        def commit() -> None:
            for store in stores.values():
                store.commit({})

        yield runtime, inside["counted"], commit
    finally:
        for store in stores.values():
            store.close()


@contextmanager
def _bare(keys: list[bytes], path: Path) -> Iterator[Timed]:
    names = [key.decode() for key in keys]
    with _counting(path) as (_, store, _):
        yield lambda: _add_all(store, names)


def _add_all(store: Any, names: list[str]) -> None:
    get, put = store.get, store.put
    for time_ms, name in enumerate(names):
        found = get(name)
        put(name, 1 if found is None else found[0] + 1, time_ms)


@contextmanager
def _process(keys: list[bytes], path: Path) -> Iterator[Timed]:
    records = _records(keys)
    with _counting(path) as (runtime, _, _):
        yield lambda: _process_all(runtime, records, 0)


def _process_all(runtime: TaskRuntime, records: list[Any], first: int) -> None:
    process = runtime.process
    for offset, record in enumerate(records, first):
        process("in", 0, offset, record)


def _records(keys: list[bytes]) -> list[Record[bytes | None, bytes | None]]:
    value = ss.int64.encode(1)
    return [Record(key, value, time_ms) for time_ms, key in enumerate(keys)]


@contextmanager
def _difference(keys: list[bytes], path: Path) -> Iterator[Timed]:
    """Take turns: the same records by the runtime, and by the calls alone, into two stores."""
    chunk = max(1, len(keys) // 20)
    records, names = _records(keys), [key.decode() for key in keys]
    with _counting(path / "one") as (runtime, _, commit_one), _counting(path / "two") as more:
        _, store, commit_two = more

        def timed() -> Outcome:
            over = []
            for start in range(0, len(keys), chunk):
                began = thread_time()
                _process_all(runtime, records[start : start + chunk], start)
                between = thread_time()
                _add_all(store, names[start : start + chunk])
                over.append((between - began - (thread_time() - between)) / chunk * 1e6)
                commit_one()
                commit_two()
            return Outcome(quantities={"µs a record over the store's own calls": median(over)})

        yield timed


# Restarts.


def _restart(scale: Scale) -> Group:
    largest = scale.large_rows(1_000_000, quick=1_000_000)
    sizes = sorted({max(1, largest // 10), largest})
    cases = [f"{size:,} keys" for size in sizes]
    return Group(
        name="processing-restart",
        title="Open a topology's state again, find that there is nothing to do, and end",
        operations=1,
        metric=Metric.WALL,
        rounds=3,
        warm_up=False,
        cases=[Case(name, partial(_again, size)) for name, size in zip(cases, sizes, strict=True)],
        targets=[
            Target(
                case=cases[-1],
                figure=Figure.SECONDS,
                at_most=3,
                row=f"restart of a topology with {largest:,} keys of state",
            ),
            Target(
                case=cases[-1],
                at_most=2,
                row="restart with ten times as many keys and records behind it",
            ),
        ],
    )


@contextmanager
def _again(keys: int, path: Path) -> Iterator[Timed]:
    topology = Topology("restarted")
    source = Topic("in", key=ss.utf8, value=ss.int64)
    topology.stream(source).group_by_key().count(_STORE)
    with LocalTopics(path / "topics", durability=ss.Durability.PROCESS_CRASH) as topics:
        topics.topic(source).append(Record(f"key-{n:09d}", n, n) for n in range(keys))

    def run() -> None:
        LocalRunner(
            topology,
            path / "state",
            path / "topics",
            backend="rocksdb",
            durability=ss.Durability.PROCESS_CRASH,
            commit_records=100_000,
            until="idle",
        ).run()

    run()
    yield run
