"""Two queries on one handle: each answers as if it were alone, whatever the writer commits between.

A handle is anything that is asked more than once: a facade, the owner's own store, a composite with
a bound and without one, a reader of a partition's files, its change feed, an index. A seed chooses
when a query begins, when it goes on, when it is let go, and when the writer commits. What a query
has to give was asked at its beginning of another handle, and drained at once.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import statestores as ss
from statestores.arrow import AsOfIndex
from statestores.logged_store import open_logged_store
from statestores.partitioning import murmur2_partitioner
from statestores.reading.partition_reader import PartitionReader
from statestores.spi.offsets import Position
from statestores.spi.stores.store import Isolation

BACKENDS = ["memory", "rocksdb", "leveldb", "sqlite"]
SEED = 13
STEPS = 120
SOAK_SCHEDULES = 20
OPEN_QUERIES = 6
KEYS = [f"k{number:02d}" for number in range(24)]
INPUT = ss.TopicPartition("in", 0)

Query = Callable[[], Iterator[Any]]


class _Running:
    """A query that has begun, and what it has to give."""

    def __init__(self, name: str, items: Iterator[Any], expected: list[Any]) -> None:
        self.name = name
        self._items = items
        self._expected = expected
        self._seen: list[Any] = []

    def step(self, count: int) -> bool:
        """Ask for some more; return whether there were as many."""
        for _ in range(count):
            try:
                self._seen.append(next(self._items))
            except StopIteration:
                assert self._seen == self._expected, self.name
                return False
        assert self._seen == self._expected[: len(self._seen)], self.name
        return True


def interleave(
    rng: random.Random,
    queries: dict[str, tuple[Query, Query]],
    write: Callable[[random.Random], None],
    steps: int,
) -> int:
    """Run a schedule; return how many queries came to their end.

    Args:
        rng: Chooses.
        queries: By name: the query on the shared handle, and the same on one of its own.
        write: Writes something, and mostly commits it.
        steps: How many there are.
    """
    running: list[_Running] = []
    ended = 0
    for _ in range(steps):
        action = rng.random()
        if action < 0.35 and len(running) < OPEN_QUERIES:
            name = rng.choice(list(queries))
            shared, alone = queries[name]
            expected = list(alone())
            running.append(_Running(name, iter(shared()), expected))
        elif action < 0.4 and running:
            running.pop(rng.randrange(len(running)))  # let go in the middle, not closed
        elif action < 0.75 and running:
            query = rng.choice(running)
            if not query.step(rng.randint(1, 4)):
                running.remove(query)
                ended += 1
        else:
            write(rng)
    for query in running:
        while query.step(8):
            pass
        ended += 1
    return ended


def _writing(kind: Any, store_of: Callable[[str], Any], end: Callable[[Any], None]) -> Any:
    """Return what writes a few words of a kind, and ends the write in one way or another."""
    number = 0

    def write(rng: random.Random) -> None:
        nonlocal number
        for word in rng.choices(KEYS, k=rng.randint(1, 6)):
            number += 1
            kind.put(store_of(word), word, number)
        end(rng)

    return write


def _pairs(kind: Any, shared: Any, anew: Callable[[], Any]) -> dict[str, tuple[Query, Query]]:
    """Return every read of *kind*, of a few words, of *shared* and of what *anew* gives."""

    def at_once(read: Any, word: str) -> tuple[Query, Query]:
        return lambda: iter([read(shared, word)]), lambda: iter([read(anew(), word)])

    def bit_by_bit(read: Any, word: str) -> tuple[Query, Query]:
        return lambda: read(shared, word), lambda: read(anew(), word)

    pairs: dict[str, tuple[Query, Query]] = {}
    for word in KEYS[:: len(KEYS) // 4]:
        for name, read in {**kind.one_key, **kind.all_keys}.items():
            pairs[f"{name} {word}"] = at_once(read, word)
        for name, read in kind.iterators.items():
            pairs[f"{name} {word}"] = bit_by_bit(read, word)
    return pairs


@pytest.mark.spec("ROF-2", "ROF-8")
@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_of_one_store_do_not_touch_each_other(
    open_members: Callable[..., Any], kinds: Any, backend: str
) -> None:
    """Through facades of both isolations and by the owner, with writes pending in between."""
    _run_stores(open_members, kinds, backend, [SEED])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_of_one_store_do_not_touch_each_other_for_long(
    open_members: Callable[..., Any], kinds: Any, backend: str
) -> None:
    """The same with many seeds."""
    _run_stores(open_members, kinds, backend, range(SOAK_SCHEDULES))


def _run_stores(open_members: Any, kinds: Any, backend: str, seeds: Iterable[int]) -> None:
    for seed in seeds:
        rng = random.Random(seed)  # repeatable, not secret
        for kind in kinds:
            members = open_members(kind.specification, backend)
            _run_store(kind, members.stores[0], rng)
            members.close()


def _run_store(kind: Any, store: Any, rng: random.Random) -> None:
    queries = {f"{kind.name} owner {n}": q for n, q in _pairs(kind, store, lambda: store).items()}
    for isolation in Isolation:
        anew = partial(store.read_only, isolation)
        pairs = _pairs(kind, anew(), anew)
        queries |= {f"{kind.name} {isolation.value} {name}": each for name, each in pairs.items()}

    def end(rng: random.Random) -> None:
        if rng.random() < 0.6:
            store.commit({})
        elif rng.random() < 0.3:
            store.rollback()

    assert interleave(rng, queries, _writing(kind, lambda _: store, end), STEPS) > 0


@pytest.mark.spec("QRY-2", "QRY-9")
@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_of_one_composite_do_not_touch_each_other(
    open_members: Callable[..., Any], kinds: Any, backend: str
) -> None:
    """Over all partitions, each of which commits by itself; with a bound and without one."""
    _run_composites(open_members, kinds, backend, [SEED])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_of_one_composite_do_not_touch_each_other_for_long(
    open_members: Callable[..., Any], kinds: Any, backend: str
) -> None:
    """The same with many seeds."""
    _run_composites(open_members, kinds, backend, range(SOAK_SCHEDULES))


def _run_composites(open_members: Any, kinds: Any, backend: str, seeds: Iterable[int]) -> None:
    for seed in seeds:
        rng = random.Random(seed)  # repeatable, not secret
        for kind in kinds:
            members = open_members(kind.specification, backend)
            _run_composite(kind, members, rng)
            members.close()


def _run_composite(kind: Any, members: Any, rng: random.Random) -> None:
    for number in members.stores:
        members.commit(number, {INPUT: 1})
    queries: dict[str, tuple[Query, Query]] = {}
    for bound in (None, Position({INPUT: 1})):
        anew = partial(members.queries.store, "s", kind.type, at_least=bound)
        pairs = _pairs(kind, anew(), anew)
        queries |= {f"{kind.name} {bound} {name}": each for name, each in pairs.items()}

    def store_of(word: str) -> Any:
        home = murmur2_partitioner.partition(word.encode(), len(members.stores))
        return members.stores[home]

    def end(rng: random.Random) -> None:
        members.commit(rng.randrange(len(members.stores)), {INPUT: rng.randrange(1, 99)})

    assert interleave(rng, queries, _writing(kind, store_of, end), STEPS) > 0


def test_many_keys_of_a_composite_are_of_one_commit(
    open_members: Callable[..., Any], kinds: Any
) -> None:
    """``get_many`` asked for each key by itself, and a commit between two of them showed.

    Here the writer commits as soon as one key has been read. All keys of a partition are of the
    commit before, as they are when the partition is asked alone.
    """
    kind = kinds[0]
    members = open_members(kind.specification)
    words = [
        word
        for word in KEYS
        if murmur2_partitioner.partition(word.encode(), len(members.stores)) == 1
    ]
    store = members.stores[1]

    def put_all(number: int) -> None:
        for word in words:
            kind.put(store, word, number)
        members.commit(1, {})

    put_all(0)
    inner = members.facades[1].store_of_bytes

    class Committing(type(inner)):  # type: ignore[misc]  # a facade that a writer runs beside
        def get(self, key: bytes) -> Any:
            found = super().get(key)
            put_all(1)
            return found

        def get_many(self, keys: Any) -> Any:
            found = super().get_many(keys)
            put_all(1)
            return found

    beside = object.__new__(Committing)
    beside.__dict__.update(inner.__dict__)
    members.facades[1] = type(members.facades[1])(beside, kind.specification)

    assert members.queries.store("s", kind.type).get_many(words) == [0] * len(words)


def test_queries_of_one_partitions_files_do_not_touch_each_other(tmp_path: Path) -> None:
    """Rows now, as of a time and at an offset, the history, and changes with what they replaced.

    Rows that were asked for, and then written past before the first was taken, were those of the
    later moment; and so was the end of the changes. Both are of the call now.
    """
    _run_readers(tmp_path, [SEED])


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_queries_of_one_partitions_files_do_not_touch_each_other_for_long(tmp_path: Path) -> None:
    """The same with many seeds."""
    _run_readers(tmp_path, range(SOAK_SCHEDULES))


def _run_readers(directory: Path, seeds: Iterable[int]) -> None:
    for seed in seeds:
        rng = random.Random(seed)  # repeatable, not secret
        for specification in (
            ss.KeyValue("counts"),
            ss.Versioned("rates", history_retention_ms=1_000),
        ):
            root = ss.StateRoot.create(directory / f"{seed}-{specification.name}")
            root.add_store(specification, partitions=1)
            with open_logged_store(root, specification.name, 0, backend="memory") as logged:
                _run_reader(root, specification, logged, rng)


def _run_reader(root: Any, specification: Any, logged: Any, rng: random.Random) -> None:
    is_versioned = isinstance(specification, ss.Versioned)
    now_ms = 0

    def write(rng: random.Random) -> None:
        nonlocal now_ms
        now_ms += 1
        for word in rng.choices(KEYS, k=3):
            value = None if rng.random() < 0.2 else b"%d" % now_ms
            logged.store.put(
                word.encode(), value, **({"timestamp_ms": now_ms} if is_versioned else {})
            )
        logged.commit({INPUT: now_ms})
        if rng.random() < 0.1:
            logged.snapshot()

    asked: dict[str, Callable[[PartitionReader], Any]] = {
        "rows": lambda reader: reader.rows(),
        "rows at 0": lambda reader: reader.rows(offset=0),
        "changes": lambda reader: reader.changes(position=True),
        "position": lambda reader: [reader.position],
        "end": lambda reader: [reader.end_offset],
    }
    if is_versioned:
        asked["as of"] = lambda reader: reader.rows(as_of_ms=20)
        asked["history"] = lambda reader: reader.rows(history=True)
    else:
        asked["changes and before"] = lambda reader: reader.changes(0, before=True)

    anew = partial(PartitionReader, root.partition(specification.name, 0), specification)
    shared = anew()

    def pair(ask: Callable[[PartitionReader], Any]) -> tuple[Query, Query]:
        return lambda: _rows_of(ask(shared)), lambda: _rows_of(ask(anew()))

    write(rng)
    queries = {name: pair(ask) for name, ask in asked.items()}
    assert interleave(rng, queries, write, STEPS) > 0


def test_an_index_answers_as_of_the_moment_at_which_it_was_made(tmp_path: Path) -> None:
    """Joins against it, one after the other with commits between, are those of one history."""
    specification = ss.Versioned("rates", history_retention_ms=1_000)
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(specification, partitions=1)
    reader = PartitionReader(root.partition("rates", 0), specification)
    keys, times = pa.array([b"k", b"l"], pa.binary()), pa.array([7, 7])
    with open_logged_store(root, "rates", 0, backend="memory") as logged:
        logged.store.put(b"k", b"1", timestamp_ms=1)
        logged.commit()
        rows = reader.rows(history=True)
        logged.store.put(b"k", b"2", timestamp_ms=2)
        logged.commit()
        index = AsOfIndex.from_rows(rows)
        before = index.find(keys, times).values.to_pylist()
        logged.store.put(b"l", b"3", timestamp_ms=3)
        logged.commit()
        again = index.find(keys, times).values.to_pylist()

    assert before == again == [b"1", None]


def _rows_of(found: Any) -> Iterator[Any]:
    """Return the rows of record batches one by one, and what is none as it is."""
    return chain.from_iterable(
        each.to_pylist() if isinstance(each, pa.RecordBatch) else [each] for each in found
    )
