"""Runs of a drawn topology: record by record, in runs of every update, and on columns."""

import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from drawing import Drawing
from drawn_records import drawn_records
from drawn_topology import LETTERS, drawn_topology

from statestores.errors import ProcessingError
from statestores.processing import RawRecord
from statestores.processing.testing.driver import TestDriver
from statestores.processing.topology import Graph

NEVER = 1 << 60
Written = tuple[Any, ...]
"""A record that was written: key, value, time, and headers but for tracebacks."""


class Way(NamedTuple):
    """How records are processed."""

    name: str
    least_column_rows: int
    least_run_rows: int
    every_update: bool
    """Whether each update comes out, in the order of the records."""


RUNS = Way("runs", NEVER, 1, every_update=True)
LOOP = Way("one by one in batches", NEVER, NEVER, every_update=True)
COLUMNS = Way("columns", 1, NEVER, every_update=False)
MIXED = Way("columns and runs", 4, 2, every_update=False)


@dataclass
class Found:
    """What a run has found."""

    written: dict[str, list[Written]] = field(default_factory=lambda: defaultdict(list))
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    stores: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    """Why it stopped, if it did."""


def run_one_by_one(seed: int) -> tuple[Drawing, Found]:
    """Run the topology of *seed* record by record, in memory."""
    return _run(seed, None, 1, "memory", 0)


def run_in_batches(seed: int, way: Way, size: int, backend: str, cache_bytes: int) -> Found:
    """Run it in batches of *size*; where *backend* keeps something, with restarts."""
    return _run(seed, way, size, backend, cache_bytes)[1]


def _run(
    seed: int, way: Way | None, size: int, backend: str, cache_bytes: int
) -> tuple[Drawing, Found]:
    drawing, found = drawn_topology(seed), Found()
    records = drawn_records(seed * 7 + 1, drawing.sources, may_fail=drawing.may_fail)
    drawn = random.Random(seed * 3 + 2)
    with tempfile.TemporaryDirectory() as directory:
        where = None if backend == "memory" else directory

        def begin() -> TestDriver:
            driver = drawing.topology.test(
                backend=backend, directory=where, commit_each=False, cache_max_bytes=cache_bytes
            )
            if way is not None:
                driver.to_batches(
                    size,
                    least_column_rows=way.least_column_rows,
                    least_run_rows=way.least_run_rows,
                )
            return driver

        driver = begin()
        try:
            for topic, record in records:
                driver.topic(topic).pipe_bytes(record)
                if drawn.random() < 0.06:
                    driver.commit()
                    if where is not None and drawn.random() < 0.5:
                        gather(driver, drawing, found)
                        driver.close()
                        driver = begin()
            driver.settle()
            driver.commit()
            gather(driver, drawing, found)
            found.stores = dict(contents(driver, drawing.stores))
        except ProcessingError as error:
            found.error = str(error)
        finally:
            driver.close()
    return drawing, found


def gather(driver: TestDriver, drawing: Drawing, found: Found) -> None:
    """Add what *driver* has written and dropped."""
    for counts in driver.counts:
        found.dropped.update(counts.dropped)
    for topic in written_topics(drawing, driver.graph):
        records = driver.topic(drawing.prefix + topic).read_bytes()
        found.written[topic] += map(as_written, records)


def written_topics(drawing: Drawing, graph: Graph) -> list[str]:
    """Return the topics that the topology writes, those of dead letters too, without prefix."""
    letters = [topic.name for topic in graph.errors.dead_letter_topics]
    return [*drawing.outputs, *(name.removeprefix(drawing.prefix) for name in letters)]


def as_written(record: RawRecord) -> Written:
    """Return what is compared of *record*."""
    headers = tuple(each for each in record.headers if not each[0].endswith("stacktrace"))
    return record.key, record.value, record.time_ms, headers


def contents(driver: TestDriver, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the rows of each store, with all that lies beside the values."""
    for task in driver._tasks:  # a driver shows stores as they were declared
        for name in names:
            if name in task.stores:
                yield name, rows_of(task.whole_stores[name])


def rows_of(store: Any) -> str:
    """Return all rows of *store*."""
    content = getattr(store, "store_of_bytes", store).committed_content()
    with closing(content.changes) as chunks:
        return repr(list(chunks))


def differences(
    wanted: Found, found: Found, way: Way, *, is_cached: bool, goes_around: bool
) -> Iterator[str]:
    """Yield where *found*, by *way*, is not what one by one was *wanted*.

    Of what *goes_around*, an answer that comes too late is none: there the last updates count.
    """
    if wanted.error is not None or found.error is not None:
        # Columns may leave out the update that fails.
        if wanted.error is None or (found.error is None and way.every_update):
            yield f"the error {found.error!r}, wanted {wanted.error!r}"
        return
    if found.dropped != wanted.dropped and not is_cached:
        yield f"dropped {dict(found.dropped)}, wanted {dict(wanted.dropped)}"
    for topic in sorted(wanted.written.keys() | found.written.keys()):
        one, other = wanted.written[topic], found.written[topic]
        if topic in LETTERS:  # those of a batch come step by step
            one, other = ([] if is_cached else sorted(each, key=repr) for each in (one, other))
        if topic in LETTERS or (way.every_update and not is_cached and not goes_around):
            if repr(one) != repr(other):
                yield f"{topic}: {_first(one, other)}"
        else:
            yield from _last_updates(topic, one, other, goes_around=goes_around)
    for name, content in wanted.stores.items():
        if found.stores.get(name) != content:
            yield f"store {name}: {found.stores.get(name)!r:.300}, wanted {content!r:.300}"


def _last_updates(
    topic: str, wanted: list[Written], found: list[Written], *, goes_around: bool
) -> Iterator[str]:
    """Accept some of the updates, in their order, with the last of each key."""
    one, other = ({each[0]: each for each in written} for written in (wanted, found))
    if repr(sorted(one.items(), key=repr)) != repr(sorted(other.items(), key=repr)):
        last = (sorted(each.values(), key=repr) for each in (one, other))
        yield f"last of {topic}: {_first(*last)}"
        return
    if goes_around:
        return
    rest = map(repr, wanted)
    if not all(any(repr(each) == update for update in rest) for each in found):
        yield f"order of {topic}: {_first(wanted, found)}"


def _first(wanted: list[Written], found: list[Written]) -> str:
    """Return where two lists begin to differ."""
    at = 0
    while at < min(len(wanted), len(found)) and repr(wanted[at]) == repr(found[at]):
        at += 1
    return (
        f"{len(wanted)} and {len(found)}, different from {at} on: wanted "
        f"{wanted[at : at + 3]!r:.350}, found {found[at : at + 3]!r:.350}"
    )


@contextmanager
def explained(drawing: Drawing) -> Iterator[None]:
    """Add to what is raised which topology it was."""
    try:
        yield
    except AssertionError as error:
        error.add_note("\n".join(drawing.said))
        raise
