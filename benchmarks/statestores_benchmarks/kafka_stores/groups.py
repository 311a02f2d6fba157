"""The works as groups: Kafka Streams beside ours, with the read cache and without."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from statestores_benchmarks.cases import STEADY_ROUNDS, Case, Group, Scale, Target
from statestores_benchmarks.kafka_stores import driver, ours
from statestores_benchmarks.kafka_stores.ours import Options, Way
from statestores_benchmarks.kafka_stores.peer import Peer, started
from statestores_benchmarks.kafka_stores.rows import VERSIONS, Rows
from statestores_benchmarks.retired import asked_with_floor

WORKLOAD = "kafka-stores"
KAFKA = "Kafka Streams (JVM)"
OURS = "statestores"
UNCACHED = "statestores, no read cache"
FLOOR = "RocksDB's driver, bare calls"
_AGAINST_DRIVER = "against the bare driver's calls"
_AGAINST = "against Kafka Streams' store (JVM)"

_NO_READ_CACHE: Options = {"read_cache_bytes": 0}
_DURABILITY = (
    "Kafka Streams: no write-ahead log, one commit at the end; ours: a log that survives the "
    "process, and a commit every 1,000 rows"
)


class Work(NamedTuple):
    """One thing that both sides do."""

    name: str
    """As the Java program calls it."""

    title: str
    """In a sentence; ``{rows}`` and ``{reads}`` are numbers."""

    way: Way
    """How ours does it."""

    target: float
    """The most that ours may take, as a multiple of Kafka Streams' time; `retired` says whether
    it was retired."""

    floor: Way
    """The same rows by the driver's own calls: no design takes less, but for reads from memory. See
    `driver` for what is part of it."""

    columns: Way | None = None
    """How ours does it with columns, if it has a call for that."""

    reads: str = "rows"
    """What an operation is: one of the ``rows``, of the ``reads``, or of the ``few`` keys."""

    uncached: float | None = None
    """The most without the read cache, where a target was set for that."""

    short: Way | None = None
    """How ours does it where there is little: a restore of fewer than 65,536 records
    (docs/decisions/0149-a-long-restore-from-a-topic-is-sorted.md)."""


WORKS: Sequence[Work] = [
    Work(
        "key-value put",
        "put {rows:,} rows",
        ours.putting(ours.KEY_VALUE, ours.plain, ours.each),
        0.6,
        driver.putting(ours.KEY_VALUE, ours.plain),
        columns=ours.putting(ours.KEY_VALUE, ours.plain, ours.many),
    ),
    Work(
        "key-value get",
        "get {reads:,} of {rows:,} rows",
        ours.reading(ours.KEY_VALUE, ours.plain, ours.many, ours.get),
        0.95,
        ours.reading(ours.KEY_VALUE, ours.plain, ours.many, driver.get),
        columns=ours.reading(ours.KEY_VALUE, ours.plain, ours.many, ours.get_many),
        reads="reads",
    ),
    Work(
        "key-value scan",
        "scan {rows:,} rows",
        ours.reading(ours.KEY_VALUE, ours.plain, ours.many, ours.scan),
        0.9,
        ours.reading(ours.KEY_VALUE, ours.plain, ours.many, driver.scan),
    ),
    Work(
        "key-value restore",
        "restore {rows:,} rows from records in memory",
        ours.restoring(ours.KEY_VALUE, ours.changes),
        0.7,
        driver.restoring(ours.KEY_VALUE, ours.changes),
        short=ours.putting(ours.KEY_VALUE, ours.changes, ours.replay),
    ),
    Work(
        "timestamped put",
        "put {rows:,} rows with their times",
        ours.putting(ours.TIMESTAMPED, ours.timestamped, ours.each),
        1.0,
        driver.putting(ours.TIMESTAMPED, ours.timestamped, is_stamped=True),
        columns=ours.putting(ours.TIMESTAMPED, ours.timestamped, ours.many),
    ),
    Work(
        "timestamped get",
        "get {reads:,} of {rows:,} rows with their times",
        ours.reading(ours.TIMESTAMPED, ours.timestamped, ours.many, ours.get_value),
        1.0,
        ours.reading(ours.TIMESTAMPED, ours.timestamped, ours.many, driver.get_value),
        reads="reads",
    ),
    Work(
        "versioned put",
        "put 10 versions of {few:,} keys, in order",
        ours.putting(ours.VERSIONED, ours.dated, ours.each),
        0.45,
        driver.put_versions,
        columns=ours.putting(ours.VERSIONED, ours.dated, ours.many),
    ),
    Work(
        "versioned get latest",
        "get the latest of 10 versions, {reads:,} times",
        ours.reading(ours.VERSIONED, ours.dated, ours.each, ours.latest),
        0.5,
        ours.reading(ours.VERSIONED, ours.dated, ours.each, driver.latest),
        reads="reads",
        uncached=1.2,
    ),
    Work(
        "versioned get as of",
        "get as of any time, {reads:,} times",
        ours.reading(ours.VERSIONED, ours.dated, ours.each, ours.as_of),
        0.45,
        ours.reading(ours.VERSIONED, ours.dated, ours.each, driver.as_of),
        columns=ours.reading(ours.VERSIONED, ours.dated, ours.each, ours.as_of_many),
        reads="reads",
    ),
    Work(
        "versioned restore",
        "restore 10 versions of {few:,} keys from records in memory",
        ours.restoring(ours.VERSIONED, ours.dated_changes),
        0.45,
        driver.restoring(ours.VERSIONED, ours.dated_changes),
        short=ours.putting(ours.VERSIONED, ours.dated_changes, ours.replay),
    ),
    Work(
        "window put",
        "put 10 windows of {few:,} keys",
        ours.putting(ours.WINDOW, ours.dated, ours.each),
        1.0,
        driver.putting(ours.WINDOW, ours.dated, is_named=True),
        columns=ours.putting(ours.WINDOW, ours.dated, ours.many),
    ),
    Work(
        "window fetch",
        "fetch single windows, {reads:,} times",
        ours.reading(ours.WINDOW, ours.dated, ours.each, ours.fetch),
        1.0,
        ours.reading(ours.WINDOW, ours.dated, ours.each, driver.fetch),
        reads="reads",
    ),
    Work(
        "window fetch of ten",
        "fetch the 10 windows of each of {few:,} keys",
        ours.reading(ours.WINDOW, ours.dated, ours.each, ours.fetch_ten),
        1.0,
        ours.reading(ours.WINDOW, ours.dated, ours.each, driver.fetch_ten),
        reads="few",
    ),
    Work(
        "timestamped window put",
        "put 10 windows of {few:,} keys, values with a time",
        ours.putting(ours.WINDOW, ours.dated, ours.stamped),
        1.0,
        driver.putting(ours.WINDOW, ours.dated, is_named=True, is_stamped=True),
    ),
    Work(
        "session merge",
        "merge 10 events of {few:,} keys into 5 sessions each",
        ours.merged_sessions,
        1.0,
        driver.merged_sessions,
    ),
]


def groups(scale: Scale) -> Iterator[Group]:
    """Yield a group for each work.

    One Java process serves all of them: what it has compiled for one is compiled for the next.

    Raises:
        PeerError: The Java program does not run, see `why_unavailable`.
    """
    rows = Rows(scale.rows(300_000) // VERSIONS * VERSIONS)
    with TemporaryDirectory(prefix="statestores-bench-") as directory:
        file = Path(directory) / "rows"
        rows.write(file)
        with started(file) as peer:
            for work in WORKS:
                yield _group(work, rows, peer)


def _group(work: Work, rows: Rows, peer: Peer) -> Group:
    counts = {"rows": rows.count, "reads": rows.reads, "few": rows.few}
    cases = [
        Case(KAFKA, peer.work(work.name), contender=KAFKA),
        Case(OURS, partial(work.way, rows, {}), contender="statestores, RocksDB"),
        Case(UNCACHED, partial(work.way, rows, _NO_READ_CACHE)),
    ]
    if work.columns is not None:
        cases.append(Case(f"{OURS}, 1,000 at a time", partial(work.columns, rows, {})))
    if work.short is not None:
        cases.append(Case(f"{OURS}, committed every 1,000", partial(work.short, rows, {})))
    cases.append(Case(FLOOR, partial(work.floor, rows, {})))
    name = f"kafka-{work.name.replace(' ', '-')}"
    targets = asked_with_floor(
        name,
        Target(case=OURS, at_most=work.target, row=f"{work.name}, {_AGAINST}", floor=FLOOR),
        f"{work.name}, {_AGAINST_DRIVER}",
    )
    if work.uncached is not None:
        row = f"{work.name} without read cache, {_AGAINST}"
        targets.append(Target(case=UNCACHED, at_most=work.uncached, row=row))
    return Group(
        name=name,
        title=f"Kafka Streams' stores: {work.title.format_map(counts)}",
        operations=counts[work.reads],
        cases=cases,
        durability=_DURABILITY,
        row=f"Kafka Streams' stores: {work.name}",
        targets=targets,
        least_rounds=STEADY_ROUNDS,
    )
