"""A topic may delete all that it has, and the end of the last transaction: then nothing is missed.

Records expire with the marker behind them, and a topic without records begins behind that.
"""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_END
from confluent_kafka import TopicPartition as KafkaPartition
from kafka_cluster import TestCluster, wait_for
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.arrow.restore_mark import has_rows
from statestores.kafka import run
from statestores.kafka.changelog_rows import ChangelogRow
from statestores.kafka.client_settings import ClientSettings
from statestores.kafka.cluster import Cluster
from statestores.kafka.tasks.restore import Way
from statestores.kafka.tasks.task_stores import LoggedStore
from statestores.kafka.tasks.waiting_columns import WaitingColumns
from statestores.processing import Record, Topic, Topology, tumbling
from statestores.processing.serdes import encoded
from statestores.spi import Changes, TopicPartition

_FAST: dict[str, Any] = {"consumer.fetch.wait.max.ms": 100}
_LOG = TopicPartition("a-changelog", 0)
_ROWS = ss.KeyValue("rows")
_ID = "x" * 22


class _Application:
    """Counts in windows, each run until idle on one directory."""

    def __init__(self, cluster: TestCluster, directory: Path) -> None:
        name = cluster.name("expired")
        self._cluster, self._directory = cluster, directory
        self.given = Topic(f"{name}-in", key=ss.utf8, value=ss.int64, partitions=1)
        self.out = Topic(f"{name}-out", key=ss.utf8, value=ss.int64, partitions=1)
        self.changelog = f"{name}-minutes-changelog"
        self.topology = Topology(name)
        minutes = ss.Window(
            "minutes", retention_ms=5_000, window_size_ms=1_000, key=ss.utf8, value=ss.int64
        )
        counts = self.topology.stream(self.given).group_by_key().window(tumbling(1_000))
        counts.count(minutes).to_stream().rekey(lambda record: record.key.key, key=ss.utf8).to(
            self.out
        )
        cluster.create(self.given, self.out)

    def run(self, offset_reset: Any = "earliest") -> list[int | None]:
        """Run until idle; return all that has come out."""
        run(
            self.topology,
            bootstrap_servers=self._cluster.address,
            state=self._directory,
            backend="sqlite",
            settings=_FAST,
            offset_reset=offset_reset,
            until="idle",
        )
        return [each.value for each in self._cluster.read(self.out)]

    def expire(self, topic: str) -> None:
        """Have *topic* lose all that it has, as its retention does."""
        [deleted] = self._cluster.admin.delete_records(
            [KafkaPartition(topic, 0, OFFSET_END)]
        ).values()
        deleted.result(60)


@pytest.mark.spec("KFK-48")
def test_windows_whose_changelog_has_expired_stay(
    cluster: TestCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a quiet weekend, a restart lost all windows that were open.

    Their changelog had deleted every record that was older than the retention, and with them the
    end of the last transaction, which the store did not have, as it was no change. So the store was
    taken for one that had missed changes, emptied, and restored from a topic without records.
    """
    application = _Application(cluster, tmp_path)
    cluster.append(application.given, [Record("a", 1, each) for each in (1, 2, 3)])
    assert application.run() == [1, 2, 3]
    for number in (4, 5):
        application.expire(application.changelog)
        cluster.append(application.given, [Record("a", 1, number)])

        assert application.run() == [*range(1, number + 1)]
    assert caplog.records == []


@pytest.mark.spec("KFK-49")
def test_an_input_that_has_expired_was_read(
    cluster: TestCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With ``offset_reset="error"`` no start was possible any more, though nothing was missed.

    The input was written by transactions, and had expired after all of it was processed. The group
    had committed the offset behind the last record, where the transaction's end had been.
    """
    application = _Application(cluster, tmp_path)
    producer = cluster.producer(**{"transactional.id": application.given.name})
    producer.init_transactions()

    def give(*, is_committed: bool) -> None:
        producer.begin_transaction()
        value = encoded(ss.int64, 1)
        producer.produce(application.given.name, value, b"a", 0, timestamp=1)
        producer.flush()
        (producer.commit_transaction if is_committed else producer.abort_transaction)()

    give(is_committed=True)
    give(is_committed=False)
    assert application.run() == [1]
    application.expire(application.given.name)
    give(is_committed=True)

    assert application.run(offset_reset="error") == [1, 2]
    assert caplog.records == []


@pytest.mark.long
@pytest.mark.spec("KFK-48", "KFK-17")
def test_a_copy_takes_over_what_has_expired(cluster: TestCluster, tmp_path: Path) -> None:
    """It was emptied as its task came to it, although it had read all that there was."""
    application = _Application(cluster, tmp_path)
    place = TopicPartition(application.changelog, 0)
    asked = Cluster(ClientSettings(cluster.address))

    def has_come(count: int) -> bool:
        return [each.value for each in cluster.read(application.out)] == [*range(1, count + 1)]

    def has_read_all() -> bool:
        assert other.runner._restorer is not None
        [copy] = other.runner._restorer.standbys()
        return copy.remaining[place].logged.reached == asked.ends([place], committed=False)[place]

    one = ThreadedInstance(cluster, application.topology, tmp_path / "one", standby_replicas=1)
    other = ThreadedInstance(cluster, application.topology, tmp_path / "other", standby_replicas=1)
    with one:
        one.wait_for("running", 1)
        with other:
            other.wait_for("standby", 1)
            cluster.append(application.given, [Record("a", 1, each) for each in (1, 2, 3)])
            wait_for(lambda: has_come(3), "counts")
            wait_for(has_read_all, "a copy of all")
            application.expire(application.changelog)
            one.leave()
            other.wait_for("running", 1)
            cluster.append(application.given, [Record("a", 1, 4)])
            wait_for(lambda: has_come(4), "a count that goes on")


def _put(logged: LoggedStore, offset: int, markers: int) -> None:
    logged.store.replay(Changes([b"k"], [b"v"]))
    logged.commit(offset, markers)


def _opened(directory: Path) -> LoggedStore:
    return LoggedStore(ss.open_store(directory, _ROWS, backend="sqlite"), _LOG)


@pytest.mark.spec("KFK-48")
@pytest.mark.parametrize(("start", "is_kept"), [(5, True), (6, True), (7, True), (8, False)])
def test_what_was_committed_has_the_end_of_its_transaction(
    tmp_path: Path, start: int, *, is_kept: bool
) -> None:
    """And one more offset is a change that the store may lack."""
    logged = _opened(tmp_path)
    assert logged.begin_restore(0, 0, _ID)
    _put(logged, 5, 1)
    logged.store.close()
    logged = _opened(tmp_path)
    with logged.store:
        assert logged.next_offset == 6
        assert logged.begin_restore(start, 9, _ID) is is_kept
        assert has_rows(logged.store) is is_kept
        assert logged.reached == (7 if is_kept else 0)


@pytest.mark.spec("KFK-48")
def test_a_part_of_a_transaction_has_not_its_end(tmp_path: Path) -> None:
    """What is restored is committed in batches: behind one is a change as well as an end."""
    logged = _opened(tmp_path)
    with logged.store:
        assert logged.begin_restore(0, 7, _ID)
        _put(logged, 5, 0)

        assert not logged.begin_restore(7, 7, _ID)


@pytest.mark.spec("KFK-48")
def test_what_was_read_to_its_end_is_noted_with_the_position(tmp_path: Path) -> None:
    """A store that is restored has committed its last batch before it sees the end."""
    logged = _opened(tmp_path)
    assert logged.begin_restore(0, 9, _ID)
    _put(logged, 5, 0)
    logged.has_read_to(9)
    logged.commit(None)
    logged.store.close()
    logged = _opened(tmp_path)
    with logged.store:
        assert logged.begin_restore(9, 9, _ID)
        assert not logged.begin_restore(10, 12, _ID)


@pytest.mark.spec("KFK-48")
def test_what_is_read_on_is_not_before_the_end_nor_behind_the_topic(tmp_path: Path) -> None:
    """A copy was emptied when another one came, if only an end had been deleted meanwhile.

    All changelogs are assigned anew then, and it was read from where its last change had been. But
    the end of a transaction is noted before each partition has it.
    """
    logged = _opened(tmp_path)
    with logged.store:
        assert logged.begin_restore(0, 6, _ID)
        _put(logged, 5, 1)
        way = Way(logged, 0, 6, None)
        assert (way.following, way.next_offset) == (6, 6)
        way.end = 7
        assert (way.following, way.next_offset) == (6, 7)


@pytest.mark.spec("KFK-42")
def test_a_long_restore_notes_the_topic_with_its_first_rows(tmp_path: Path) -> None:
    """One that was killed had rows and no note, so it might go on from another topic."""
    logged = _opened(tmp_path)
    assert logged.begin_restore(0, 9_000, _ID)
    columns = WaitingColumns.of(logged, 1 << 40)
    assert columns is not None
    columns.take(logged.rows.changes([ChangelogRow(b"k", b"v", 1)]), 5, 1 << 20)
    columns.commit()
    logged.store.close()
    logged = _opened(tmp_path)
    with logged.store:
        assert logged.next_offset == 6
        with pytest.raises(ss.errors.OffsetOutOfRangeError, match="another topic"):
            logged.begin_restore(0, 9_000, "y" * 22)
