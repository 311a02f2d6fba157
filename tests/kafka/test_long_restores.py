"""A long restore from a topic leaves what a restore batch by batch leaves, whatever comes between.

A way that has many records before it keeps them as columns, and commits few and sorted rows.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka_cluster import TestCluster

import statestores as ss
from statestores.errors import ChangelogCorruptedError
from statestores.kafka import run
from statestores.kafka.changelog_rows import ChangelogRow, RowFormat
from statestores.kafka.tasks import restorer, waiting_columns
from statestores.kafka.tasks.restore import Way
from statestores.kafka.tasks.task_stores import LoggedStore
from statestores.kafka.tasks.waiting_columns import WaitingColumns
from statestores.processing import Record, Topic, Topology
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Changes, Durability, TopicPartition

LOG = TopicPartition("a-changelog", 0)
_RETENTION_MS = 25
STORES = [
    ss.KeyValue("plain"),
    ss.TimestampedKeyValue("stamped"),
    ss.Versioned("versions", history_retention_ms=_RETENTION_MS),
    ss.Window("windows", window_size_ms=5, retention_ms=_RETENTION_MS),
    ss.Window("many", window_size_ms=5, retention_ms=_RETENTION_MS, retain_duplicates=True),
    ss.Session("sessions", retention_ms=_RETENTION_MS),
]

_PUT = st.tuples(
    st.sampled_from([b"", b"a", b"a\x00", b"b", b"\xff\xff" * 9]),
    st.none() | st.binary(max_size=3),
    st.integers(0, 90),
)
_BATCHES = st.lists(st.lists(_PUT, min_size=1, max_size=12), min_size=1, max_size=8)


class _Message:
    """What a client gives."""

    def __init__(self, offset: int, row: ChangelogRow) -> None:
        self._offset, self._row = offset, row

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return self._row.key

    def value(self) -> bytes | None:
        return self._row.value

    def timestamp(self) -> tuple[int, int]:
        return 1, self._row.time_ms

    def headers(self) -> None:
        return None


def _messages(specification: Any, batches: list[list[Any]]) -> Iterator[list[Any]]:
    """Yield the records that a store appends for each of *batches*, which have gaps between."""
    offset = 0
    for batch in batches:
        keys, values, times = (list(column) for column in zip(*batch, strict=True))
        if specification.name == "many":  # where nothing is deleted
            values = [value or b"" for value in values]
        kind = specification.kind
        changes = Changes(
            keys,
            values,
            times if kind.order else None,
            [each + 2 for each in times] if kind.order and kind.order[-1].is_time else None,
            timestamps_ms=times if specification.name == "stamped" else None,
            sequences=[*range(len(keys))] if specification.name == "many" else None,
        )
        rows = list(RowFormat(specification).rows(changes, 7))
        yield [_Message(offset + number, row) for number, row in enumerate(rows)]
        offset += len(rows) + 1


def _restored(specification: Any, batches: list[Any], *, total: int, allowed: int) -> Any:
    """Return what a store has that was restored, and whether it committed less often."""
    engine = load_backend("memory").open("unused")
    with open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH) as store:
        logged = LoggedStore(store, LOG)
        last = batches[-1][-1].offset()
        way = Way(logged, 0, total, None)
        for messages in batches:
            way.take(messages, allowed)
            assert way.kept == logged.next_offset <= way.following
        way.end_long_restore()
        assert way.kept == way.following == logged.reached == last + 1
        with closing(store.committed_content().changes) as chunks:
            content = [
                tuple(row)
                for chunk in chunks
                for row in RowFormat(specification).rows(chunk, 7)
                if row.value is not None
            ]
        return content, store.committed_offset(LOG), getattr(store, "stream_time_ms", None)


@pytest.mark.spec("KFK-41")
@pytest.mark.parametrize("specification", STORES, ids=lambda each: each.name)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=_BATCHES, allowed=st.integers(0, 2_000))
def test_the_store_is_what_one_has_that_commits_each_batch(
    monkeypatch: pytest.MonkeyPatch, specification: Any, batches: list[Any], allowed: int
) -> None:
    """Content, offset and stream time, wherever it had to commit on the way."""
    monkeypatch.setattr(waiting_columns, "LEAST_RECORDS", 1)
    given = list(_messages(specification, batches))

    found = _restored(specification, given, total=1_000, allowed=allowed)

    assert found == _restored(specification, given, total=0, allowed=0)


@pytest.mark.spec("KFK-41")
def test_a_record_of_something_else_ends_a_long_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before it is not committed with it, and not with a later offset."""
    monkeypatch.setattr(waiting_columns, "LEAST_RECORDS", 1)
    window = STORES[3]
    [[good, wrong]] = _messages(window, [[(b"a", b"1", 5), (b"b", b"2", 5)]])
    wrong._row = ChangelogRow(b"short", b"2", 5)
    engine = load_backend("memory").open("unused")
    with open_on_engine(engine, window, durability=Durability.PROCESS_CRASH) as store:
        logged = LoggedStore(store, LOG)
        way = Way(logged, 0, 1_000, None)
        way.take([good], 1 << 20)
        with pytest.raises(ChangelogCorruptedError, match="'windows'"):
            way.take([wrong], 1 << 20)
        way.end_long_restore()

        assert way.kept == logged.next_offset == 1


@pytest.mark.spec("KFK-8", "KFK-41")
def test_a_lost_directory_comes_back_in_few_commits(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts go on where they were, after a restore that committed when much waited."""
    monkeypatch.setattr(waiting_columns, "LEAST_RECORDS", 100)
    monkeypatch.setattr(restorer, "_WAITING_BYTES", 4_000)
    name = cluster.name("long")
    words = Topic(f"{name}-words", key=ss.utf8, value=ss.utf8, partitions=2)
    counted = Topic(f"{name}-counted", key=ss.utf8, value=ss.int64, partitions=2)
    cluster.create(words, counted)
    topology = Topology(name)
    counts = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    topology.stream(words).group_by_key().count(counts).to(counted)
    told: list[Any] = []
    kept: list[WaitingColumns] = []
    keep = WaitingColumns.commit

    def commit(self: WaitingColumns) -> None:
        kept.append(self)
        keep(self)

    monkeypatch.setattr(WaitingColumns, "commit", commit)

    def run_on(state: Path) -> None:
        cluster.append(words, (Record(f"w{each % 300}", "x", each) for each in range(900)))
        run(
            topology,
            bootstrap_servers=cluster.address,
            state=state,
            settings={"consumer.fetch.wait.max.ms": 100},
            least_column_rows=1 << 60,
            least_run_rows=1 << 60,
            on_restore=told.append,
            until="idle",
        )

    run_on(tmp_path / "one")
    run_on(tmp_path / "two")

    last = {record.key: record.value for record in cluster.read(counted)}
    assert last == {f"w{each}": 6 for each in range(300)}
    rows = [each.rows for each in told if each.event == "ended" and each.rows]
    assert sum(each for each in rows if each >= 100) == 300
    assert len(kept) > 2
