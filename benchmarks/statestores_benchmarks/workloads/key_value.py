"""Key-value stores against the raw driver below them: puts, gets, and a counter."""

from collections.abc import Iterator
from functools import partial

from statestores_benchmarks.cases import STEADY_ROUNDS, Case, Group, Scale, Sweep, Target
from statestores_benchmarks.contenders.door import Contender
from statestores_benchmarks.contenders.raw import (
    COUNTER_FLOORS,
    FLOORS,
    LMDB,
    OURS_LEVELDB,
    OURS_ROCKSDB,
    OURS_SQLITE,
    PUT_FLOORS,
    RAW_LEVELDB,
    RAW_ROCKSDB,
    SQLITE,
)
from statestores_benchmarks.contenders.work import Rows, case_name, cases, counts, gets, puts
from statestores_benchmarks.data import distinct_keys, drawn, zipf_keys
from statestores_benchmarks.retired import asked_with_floor

_PAIRS = {
    "rocksdb": (RAW_ROCKSDB, OURS_ROCKSDB),
    "leveldb": (RAW_LEVELDB, OURS_LEVELDB),
}
_BUFFERED = "get from the write buffer"
_CACHED = "get from the read cache"
_CACHED_ROWS = 20_000
"""What fits in a read cache of the default size."""
_INTERVALS = (1, 10, 100, 1_000, 10_000)

BytesContender = Contender[bytes, bytes]


def groups(scale: Scale) -> Iterator[Group]:
    """Yield puts, gets and the counter for each backend that has a raw driver, and the sweep."""
    rows = scale.rows(100_000)
    for backend, (raw, ours) in _PAIRS.items():
        yield _puts(backend, raw, ours, rows)
        yield _gets(backend, raw, ours, rows)
        yield _counter(backend, raw, ours, rows)
    yield _commit_intervals(scale)


def _puts(backend: str, raw: BytesContender, ours: BytesContender, rows: int) -> Group:
    keys = distinct_keys(rows)
    floor = PUT_FLOORS[backend]
    return Group(
        name=f"{backend}-put",
        title=f"{backend}: put {rows:,} distinct keys, commit every 1,000",
        operations=rows,
        least_rounds=STEADY_ROUNDS,
        cases=cases((raw, ours, floor), partial(puts, keys)),
        targets=asked_with_floor(
            f"{backend}-put",
            Target(
                case=case_name(ours),
                at_most=0.6,
                row=f"put, commit every 1,000, against direct puts, {backend}",
                floor=case_name(floor),
            ),
            f"put, commit every 1,000, against the floor, {backend}",
        ),
    )


def _gets(backend: str, raw: BytesContender, ours: BytesContender, rows: int) -> Group:
    keys = distinct_keys(rows)
    wanted = drawn(keys, rows)
    cached = drawn(keys[:_CACHED_ROWS], rows)
    floor = FLOORS[backend]
    return Group(
        name=f"{backend}-get",
        title=f"{backend}: get one of {rows:,} keys",
        operations=rows,
        cases=[
            *cases((raw, ours, floor), partial(gets, keys, wanted)),
            Case(_BUFFERED, gets(keys, wanted, ours, Rows.PENDING)),
            Case(_CACHED, gets(keys[:_CACHED_ROWS], cached, ours, Rows.JUST_COMMITTED)),
        ],
        targets=[
            *asked_with_floor(
                f"{backend}-get",
                Target(
                    case=case_name(ours),
                    at_most=1.25,
                    stretch=1.15,
                    row=f"get against the driver's get, {backend}",
                    floor=case_name(floor),
                ),
                f"get against the floor, {backend}",
            ),
            Target(
                case=_BUFFERED, at_most=0.3, row=f"get from the write buffer against it, {backend}"
            ),
            Target(case=_CACHED, at_most=0.3, row=f"get from the read cache against it, {backend}"),
        ],
    )


def _counter(backend: str, raw: BytesContender, ours: BytesContender, rows: int) -> Group:
    floor = COUNTER_FLOORS[backend]
    return Group(
        name=f"{backend}-counter",
        title=f"{backend}: count {rows:,} events of 20,000 keys, Zipf, commit every 10,000",
        operations=rows,
        least_rounds=STEADY_ROUNDS,
        cases=cases((raw, ours, floor), partial(counts, zipf_keys(rows))),
        targets=asked_with_floor(
            f"{backend}-counter",
            Target(
                case=case_name(ours),
                at_most=0.35,
                row=f"Zipf counter, commit every 10,000, against get and put, {backend}",
                floor=case_name(floor),
            ),
            f"Zipf counter, commit every 10,000, against the floor, {backend}",
        ),
    )


def _commit_intervals(scale: Scale) -> Group:
    """Return puts by how many there are between two commits; direct puts have no commits."""
    rows = scale.large_rows(50_000, quick=10_000)
    keys = distinct_keys(rows)
    points = [
        Case(
            f"{contender.name}, every {interval:,}",
            puts(keys, contender, commit_rows=interval),
            series=contender.name,
            at=interval,
            needs=contender.needs,
        )
        for contender in (
            RAW_ROCKSDB,
            OURS_ROCKSDB,
            RAW_LEVELDB,
            OURS_LEVELDB,
            SQLITE,
            OURS_SQLITE,
            LMDB,
        )
        for interval in _INTERVALS
    ]
    return Group(
        name="commit-interval",
        title=f"Put {rows:,} distinct keys, by puts between two commits",
        operations=rows,
        cases=points,
        rounds=3,
        sweep=Sweep(label="puts between two commits", value="puts a second"),
    )
