"""Topologies on a broker: what comes out is what the test driver says, wherever it is run."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
from command_line import invoke
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import NewPartitions
from kafka_cluster import TestCluster, wait_for
from kafka_shop import CLICKS, RATES, Shop
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.errors import (
    InstanceFencedError,
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTypeError,
    OffsetOutOfRangeError,
    ProcessingError,
    StoreLockedError,
    TopologyMismatchError,
)
from statestores.files.directory_lock import DirectoryLock
from statestores.kafka import KafkaRunner, global_tables, run
from statestores.kafka.client_settings import ClientSettings, OffsetReset
from statestores.kafka.group import membership, stay
from statestores.kafka.tasks import wholes
from statestores.kafka.tasks.changelog_frames import FRAME_KEYS
from statestores.kafka.writer import TransactionalWriter
from statestores.processing import Record, Topic, Topology
from statestores.spi import TopicPartition

_FAST: dict[str, Any] = {"consumer.fetch.wait.max.ms": 100}


class _Consumer(Consumer):
    """A consumer that notes what it has when it is closed."""

    assigned_at_close: ClassVar[list[list[Any]]] = []

    def close(self) -> None:
        self.assigned_at_close.append(self.assignment())
        super().close()


@pytest.mark.spec("KFK-2", "KFK-4", "KFK-8", "KFK-10", "KFK-11", "KFK-14", "KFK-27", "KFK-28")
@pytest.mark.parametrize(
    ("protocol", "guarantee", "changelog_format"),
    [("consumer", "exactly_once", "rows"), ("classic", "at_least_once", "frames")],
)
def test_a_task_goes_on_in_an_empty_directory(  # fixtures and cases
    cluster: TestCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    protocol: Any,
    guarantee: Any,
    changelog_format: Any,
) -> None:
    """Half of the input by one instance, the rest by another: as the test driver has it at once."""
    monkeypatch.setattr(wholes, "_MOST_OFFSETS", 1)  # each commit writes its stores whole
    monkeypatch.setattr(stay, "_PURGE_SECONDS", 0.0)
    monkeypatch.setattr(membership, "Consumer", _Consumer)
    monkeypatch.setattr(_Consumer, "assigned_at_close", [])
    shop = Shop(cluster.name("shop"))
    shop.create(cluster)
    cluster.append(shop.rates, RATES)
    restored: list[int] = []
    for number, part in enumerate((CLICKS[:5], CLICKS[5:])):
        cluster.append(shop.clicks, part)
        progress = run(
            shop.topology,
            bootstrap_servers=cluster.address,
            state=tmp_path / str(number),
            backend="sqlite",
            guarantee=guarantee,
            group_protocol=protocol,
            changelog_format=changelog_format,
            commit_records=2,
            settings=_FAST,
            until="idle",
            on_restore=lambda told: restored.append(told.rows),
        )

        assert progress.processed == len(part)
        assert progress.aborts == progress.rejoins == 0
    found = {name: cluster.read(topic) for name, topic in shop.outputs.items()}

    assert found == shop.expected()
    assert max(restored) > 0
    # An instance that left in the middle of a rebalance never ended: a callback of `close` waited
    # for what librdkafka had dropped, with Python's lock. So none is left for it to call.
    assert _Consumer.assigned_at_close == [[], []]
    changelog = f"{shop.topology.name}-counts-changelog"
    first = cluster.messages(changelog, [0])[0]
    assert (first.key() in FRAME_KEYS, first.offset() == 0) == (
        (True, False) if changelog_format == "frames" else (False, True)
    )


class _Late(Consumer):
    """A consumer whose seek in a repartition topic is forgotten, as if it had come too early."""

    def seek(self, partition: Any) -> None:
        """Seek elsewhere."""
        if "by-value" not in partition.topic:
            super().seek(partition)


@pytest.mark.spec("KFK-25", "KFK-37")
def test_the_latest_offset_is_that_of_the_first_time(
    cluster: TestCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What came while nobody was there was lost, and so was what waited for the second part.

    A group that had read nothing knew no offset, so that each start and each move of a task began
    at the end again, in the application's own topics too. Later, once in forty runs on a busy
    machine, the client went to the end when it had been told where to go, and what waited for the
    second part was passed over.
    """
    name = cluster.name("latest")
    orders = Topic(f"{name}-orders", key=ss.utf8, value=ss.int64, partitions=1)
    out = Topic(f"{name}-out", key=ss.int64, value=ss.int64, partitions=1)
    cluster.create(orders, out)
    topology = Topology(name)
    by_value = topology.stream(orders).rekey("value", key=ss.int64)
    by_value = by_value.repartition("by-value", partitions=1)
    by_value.group_by_key().count(ss.KeyValue("counts", key=ss.int64, value=ss.int64)).to(out)
    [internal] = [each for each in topology.build().internal_topics if "by-value" in each.name]

    def attempt(offset_reset: OffsetReset = "latest") -> int:
        return run(
            topology,
            bootstrap_servers=cluster.address,
            state=tmp_path,
            backend="sqlite",
            settings=_FAST,
            offset_reset=offset_reset,
            until="idle",
        ).processed

    cluster.append(orders, [Record("before", 1, 1)])
    assert attempt() == 0
    wait_for(lambda: cluster.committed(name, orders) == {0: 1}, "the beginning, committed")
    between: Topic[bytes, int] = Topic(internal.name, value=ss.int64, partitions=1)
    cluster.append(between, [Record(ss.int64.encode(2), 2, 2)])
    cluster.append(orders, [Record("after", 2, 3)])
    monkeypatch.setattr(membership, "Consumer", _Late)
    assert attempt() == 3

    assert [(record.key, record.value) for record in cluster.read(out)] == [(2, 1), (2, 2)]

    # What a topic has deleted before it was processed was passed over without a word, and with
    # "latest" everything behind it too.
    monkeypatch.undo()
    cluster.append(orders, [Record("late", 3, 4)] * 3)
    [deleted] = cluster.admin.delete_records([KafkaPartition(orders.name, 0, 3)]).values()
    deleted.result()
    with pytest.raises(OffsetOutOfRangeError, match="is 2, and its records begin at 3"):
        attempt("error")
    assert attempt() == 4
    assert "its records begin at 3" in caplog.text


@pytest.mark.spec("KFK-13")
def test_an_instance_that_is_fenced_while_it_is_stopped_just_ends(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with an error, although nothing was lost: what it had not committed, others do."""
    shop = Shop(cluster.name("stopped"))
    shop.create(cluster)
    cluster.append(shop.clicks, CLICKS)
    runner = KafkaRunner(
        shop.topology, cluster.address, tmp_path, backend="sqlite", settings=_FAST, until="idle"
    )

    def fenced(*_: object) -> None:
        runner.stop()
        raise InstanceFencedError("another one has the transactional id")

    with monkeypatch.context() as patched:
        patched.setattr(TransactionalWriter, "commit", fenced)
        assert runner.run().commits == 0
    run(
        shop.topology,
        bootstrap_servers=cluster.address,
        state=tmp_path,
        backend="sqlite",
        settings=_FAST,
        until="idle",
    )

    assert cluster.read(shop.outputs["counts"]) == shop.expected()["counts"]


def _grow(cluster: TestCluster, topic: Topic[Any, Any], partitions: int) -> None:
    [created] = cluster.admin.create_partitions([NewPartitions(topic.name, partitions)]).values()
    created.result()


@pytest.mark.spec("KFK-1", "KFK-9", "KFK-13", "KFK-36")
def test_what_cannot_go_on_says_so(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory in use, a record that fails, a store that is ahead of its changelog; growth.

    Partitions that came while an instance ran were restored for a minute, in which it could not be
    stopped, from changelogs that had none; then it said that the cluster did not answer.
    """
    name = cluster.name("fails")
    numbers = Topic(f"{name}-in", key=ss.utf8, value=ss.int64, partitions=1)
    out = Topic(f"{name}-out", key=ss.utf8, value=ss.int64, partitions=1)
    cluster.create(numbers, out)
    is_bad = [True]

    def checked(record: Record[str, int]) -> bool:
        if is_bad[0] and record.value == 3:
            raise ValueError("three")
        return True

    topology = Topology(name)
    counts = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    topology.stream(numbers).filter(checked).group_by_key().count(counts).to(out)

    def attempt() -> None:
        run(
            topology,
            bootstrap_servers=cluster.address,
            state=tmp_path,
            backend="sqlite",
            settings=_FAST,
            until="idle",
        )

    held = DirectoryLock.acquire(tmp_path)
    with pytest.raises(StoreLockedError):
        attempt()
    held.release()
    cluster.append(numbers, [Record("a", each, each) for each in range(1, 6)])
    with pytest.raises(ProcessingError, match="offset 2"):
        attempt()

    assert cluster.read(out) == []
    is_bad[0] = False
    attempt()

    assert [record.value for record in cluster.read(out)] == [1, 2, 3, 4, 5]
    store = ss.open_store(
        tmp_path / "counts" / "0", ss.TimestampedKeyValue("counts", key=ss.utf8, value=ss.int64)
    )
    store.commit({TopicPartition(f"{name}-counts-changelog", 0): 1_000})
    store.close()
    with pytest.raises(OffsetOutOfRangeError, match="remove the local store"):
        attempt()

    grown = ThreadedInstance(cluster, topology, tmp_path / "grown")
    with grown:
        grown.wait_for("running", 1)
        _grow(cluster, numbers, 2)
        wait_for(lambda: grown.failure, "a refusal")

    assert isinstance(grown.failure, TopologyMismatchError)
    assert str(grown.failure).startswith(f"the group assigns partition 1 of {numbers.name!r}")

    monkeypatch.setattr(global_tables, "_LOOK_SECONDS", 0.1)
    looking = Topology(cluster.name("looks"))
    rates = looking.global_table(out, ss.KeyValue("rates", key=ss.utf8, value=ss.int64))
    numbers = Topic(numbers.name, key=ss.utf8, value=ss.int64)
    looking.stream(numbers).join(rates, lambda value, rate: rate, key="key")
    wider = ThreadedInstance(cluster, looking, tmp_path / "wider")
    with wider:
        wider.wait_for("running", 2)
        _grow(cluster, out, 3)
        wait_for(lambda: wider.failure, "a refusal")

    assert isinstance(wider.failure, TopologyMismatchError)
    assert "of a global table has 3 partitions, and had 1" in str(wider.failure)


def test_the_command_line_runs_on_kafka(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run --kafka` with its options; without a place for the stores it says so."""
    name = cluster.name("cli")
    program = (
        "import statestores as ss\n"
        "from statestores.processing import Topic, Topology\n"
        f"copy = Topology({name!r})\n"
        f"copy.stream(Topic({name!r} + '-in')).to(Topic({name!r} + '-out'))\n"
    )
    (tmp_path / f"{name.replace('-', '_')}.py").write_text(program, "utf-8")
    monkeypatch.chdir(tmp_path)
    source: Topic[bytes, bytes] = Topic(f"{name}-in", partitions=1)
    target: Topic[bytes, bytes] = Topic(f"{name}-out", partitions=1)
    cluster.create(source, target)
    cluster.append(source, [Record(b"k", b"v", 1)])
    asked = ["run", f"{name.replace('-', '_')}:copy", "--kafka", cluster.address, "--until-idle"]
    refused = invoke(*asked)
    state = ("--state", "state", "--backend", "sqlite", "--snapshots", "shared")
    done = invoke(
        *asked, *state, "--kafka-option", "client.id=mine", "--guarantee", "at_least_once"
    )

    assert refused.exit_code != 0
    assert done.exit_code == 0, done.output
    assert "1 records processed" in done.output
    assert cluster.read(target) == [Record(b"k", b"v", 1)]


def test_arguments_are_judged_before_anything_is_asked(tmp_path: Path) -> None:
    """What is no choice is named with the choices, and no error is Python's or the client's.

    A size that was no number was a ``ValueError``, a listener that was no function a ``TypeError``
    of the thread that restores, and a callback of the client that was none a ``TypeError``, too.
    """
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (InvalidArgumentError, "'exactly_once', 'at_least_once'", {"guarantee": "maybe"}),
        (InvalidArgumentError, "from 1 to 10000, got 40000", {"replication_factor": 40_000}),
        (InvalidTypeError, "progress is a function", {"progress": 5}),
        (InvalidTypeError, "a listener is a function", {"on_restore": "loud"}),
        (InvalidTypeError, "'error_cb' is a function", {"settings": {"error_cb": 5}}),
    ]

    for error, message, arguments in wrong:
        with pytest.raises(error, match=message):
            run(
                Shop("judged").topology,
                bootstrap_servers="nobody:1",
                state=tmp_path,
                **arguments,
            )
    with pytest.raises(InvalidOptionError, match=r"'message\.max\.bytes' is a number of bytes"):
        ClientSettings("broker:9092", {"message.max.bytes": "much"}).largest_bytes  # noqa: B018
