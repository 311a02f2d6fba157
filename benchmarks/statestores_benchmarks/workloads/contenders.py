"""Everybody's key-value state on the same data: ours, raw drivers, Quix Streams, Faust."""

from collections.abc import Iterator
from functools import partial

from statestores_benchmarks.cases import STEADY_ROUNDS, Group, Scale, Target
from statestores_benchmarks.contenders.faust_table import FAUST_BYTES, FAUST_JSON
from statestores_benchmarks.contenders.quix import QUIX_BYTES, QUIX_JSON
from statestores_benchmarks.contenders.raw import BYTES, OURS_JSON, OURS_ROCKSDB, RAW_JSON
from statestores_benchmarks.contenders.work import (
    case_name,
    cases,
    counts,
    gets,
    json_counts,
    puts,
)
from statestores_benchmarks.data import distinct_keys, drawn, zipf_keys

_EVERYBODY = (*BYTES, QUIX_BYTES, FAUST_BYTES)


def groups(scale: Scale) -> Iterator[Group]:
    """Yield everybody's puts, gets and two counters."""
    rows = scale.rows(100_000)
    keys = distinct_keys(rows)
    yield Group(
        name="everybody-put",
        title=f"Everybody: put {rows:,} distinct keys, commit every 1,000",
        operations=rows,
        row="put, commit every 1,000",
        cases=cases(_EVERYBODY, partial(puts, keys)),
    )
    yield Group(
        name="everybody-get",
        title=f"Everybody: get one of {rows:,} keys",
        operations=rows,
        row="get of a reopened store",
        cases=cases(_EVERYBODY, partial(gets, keys, drawn(keys, rows))),
    )
    counted = zipf_keys(rows)
    yield Group(
        name="everybody-counter",
        title=f"Everybody: count {rows:,} events of 20,000 keys, Zipf, commit every 10,000",
        operations=rows,
        row="Zipf counter of 8 bytes, commit every 10,000",
        cases=cases(_EVERYBODY, partial(counts, counted)),
        targets=[
            Target(
                case=case_name(OURS_ROCKSDB),
                base=case_name(QUIX_BYTES),
                at_most=0.2,
                row="Zipf counter against Quix Streams' state, bytes",
            )
        ],
    )
    yield Group(
        name="everybody-json-counter",
        title="Everybody: the same counter as JSON objects",
        operations=rows,
        least_rounds=STEADY_ROUNDS,
        row="Zipf counter of JSON, commit every 10,000",
        cases=cases((RAW_JSON, OURS_JSON, QUIX_JSON, FAUST_JSON), partial(json_counts, counted)),
        targets=[
            Target(
                case=case_name(OURS_JSON),
                base=case_name(QUIX_JSON),
                at_most=0.3,
                row="Zipf counter against Quix Streams' state, JSON",
            )
        ],
    )
