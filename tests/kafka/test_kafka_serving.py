"""Instances answer for their own stores and ask each other, also while one of them is killed."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import plain_http
import pytest
from kafka_answering import KEY, STORE, Instance, Numbers
from kafka_cluster import TestCluster, wait_for
from kafka_readers import Readers
from kafka_threads import ThreadedInstance

import statestores as ss
from statestores.errors import InvalidArgumentError, InvalidStateStoreError
from statestores.kafka import KafkaRunner, TopicMembership
from statestores.processing import Record, Topic, Topology
from statestores.query import RoutedStores
from statestores.query.metadata import Host, InstanceMetadata, Role
from statestores.serving import FlightStores

_STORE = ss.TimestampedKeyValue("counts", key=ss.utf8, value=ss.int64)
_WORDS = [Record(f"word-{each % 17}", 1, 1_000 + each) for each in range(200)]


class Counting:
    """Counts words in two partitions."""

    def __init__(self, cluster: TestCluster) -> None:
        """Describe it, and create its topics."""
        name = cluster.name("answering")
        self.words = Topic(f"{name}-words", key=ss.utf8, value=ss.int64, partitions=2)
        self.topology = Topology(name)
        store = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
        self.topology.stream(self.words).group_by_key().count(store)
        cluster.create(self.words)


def _answer(url: str) -> Any:
    return plain_http.get(url, timeout=30).json()


def _check(instance: ThreadedInstance, expected: dict[str, int]) -> None:
    """See that an instance answers for all keys, by each of its faces."""
    server = instance.runner.server
    assert server is not None
    url = server.url
    wait_for(lambda: bool(_answer(f"{url}/ready")["ready"]), "readiness")
    counts = server.queries.store(_STORE, max_lag=0)

    def all_counts() -> bool:
        return {key: value for key, (value, _) in counts.range()} == expected

    wait_for(all_counts, "all counts")
    rows = _answer(f"{url}/v1/stores/counts/rows?max_lag=0")["rows"]
    assert {row["key"]: row["value"] for row in rows} == expected
    here = server.queries.metadata.all_metadata_for_store("counts")
    assert [len(each.of("counts")) for each in here] == [1, 1]


def _changes(url: str, partition: int, **asked: Any) -> Any:
    """Ask as a client does: again, as long as the answer says so, as on a broker that is busy."""
    address = f"{url}/v1/stores/counts/changes"
    parameters = {"partition": partition, **asked}
    answers: list[Any] = []

    def is_answered() -> bool:
        answer = plain_http.get(address, params=parameters, timeout=30).json()
        answers.append(answer)
        return not answer.get("retryable")

    wait_for(is_answered, "changes, or a refusal that is final")
    return answers[-1]


def _columns(remote: FlightStores, host: Host) -> list[dict[str, Any]]:
    """Ask the other face, as patiently."""
    found: list[dict[str, Any]] = []

    def is_answered() -> bool:
        try:
            batches = remote.changes(host, _STORE, 0)
            found[:] = [row for batch in batches for row in batch.to_pylist()]
        except InvalidStateStoreError:
            return False
        return True

    wait_for(is_answered, "changes in columns")
    return found


def _check_changes(
    instance: ThreadedInstance, counting: "Counting", cluster: TestCluster, expected: dict[str, int]
) -> None:
    """Follow both changelogs, at an instance that has one of the tasks."""
    server = instance.runner.server
    assert server is not None
    url = server.url
    last: dict[str, int] = {}
    for partition in range(2):
        whole = _changes(url, partition, limit=10_000)
        paged, start = [], 0
        while True:
            page = _changes(url, partition, **{"from": start, "limit": 7})
            paged += page["changes"]
            start = page["next"]
            if not page["changes"]:
                break
        offsets = [each["offset"] for each in paged]
        assert paged == whole["changes"]
        assert offsets == sorted(set(offsets))
        assert whole["next"] == whole["end"] == start  # behind the mark of the last transaction
        last |= {each["key"]: each["value"] for each in paged}
    assert last == expected

    with FlightStores() as remote:
        rows = _columns(remote, server.flight)
    assert rows == _changes(url, 0, limit=10_000)["changes"]

    open_until_aborted = cluster.producer(**{"transactional.id": cluster.name("aborted")})
    open_until_aborted.init_transactions()
    open_until_aborted.begin_transaction()
    open_until_aborted.produce(f"{counting.topology.name}-counts-changelog", b"x", b"x", 0)
    open_until_aborted.flush()
    assert _changes(url, 0, limit=10_000)["changes"] == rows
    open_until_aborted.abort_transaction()
    key, end = rows[0]["key"], _changes(url, 0)["end"]
    cluster.append(counting.words, [Record(key, 1, 2_000)])
    later = _changes(url, 0, **{"from": end, "wait_ms": 20_000})
    assert [(each["key"], each["value"]) for each in later["changes"]] == [(key, expected[key] + 1)]
    missing = _changes(url, 0, **{"from": 10**9})
    assert missing["error"] == "OffsetOutOfRangeError"
    assert _changes(url, 2)["error"] == "InvalidArgumentError"


@pytest.mark.spec("SRV-22", "SRV-14", "SRV-25", "KFK-21", "KFK-22")
def test_every_instance_answers_for_every_key(cluster: TestCluster, tmp_path: Path) -> None:
    """Two instances share two partitions: each is asked for all keys, and is ready once it runs."""
    counting = Counting(cluster)
    cluster.append(counting.words, _WORDS)
    serve = "127.0.0.1:0"
    with (
        ThreadedInstance(cluster, counting.topology, tmp_path / "one", serve=serve) as one,
        ThreadedInstance(cluster, counting.topology, tmp_path / "two", serve=serve) as two,
    ):
        one.wait_for("running", 1)
        two.wait_for("running", 1)
        keys = [each.key for each in _WORDS]
        expected = {key: keys.count(key) for key in keys}
        for instance in (one, two):
            _check(instance, expected)
        _check_changes(two, counting, cluster, expected)
        url = one.runner.server.url if one.runner.server else ""

    assert one.runner.server is None
    with pytest.raises(httpx.ConnectError):
        _answer(f"{url}/health")


def _copies(queries: RoutedStores) -> tuple[Host, ...]:
    return queries.metadata.query_metadata_for_partition("last", 0).standbys


@pytest.mark.spec("SRV-6", "SRV-7", "KFK-21", "KFK-22", "KFK-23")
def test_no_answer_breaks_its_bound_while_an_instance_is_killed(
    cluster: TestCluster, tmp_path: Path
) -> None:
    """The copy answers until the successor does, and neither gives less than was asked for."""
    numbers = Numbers(cluster.name("numbers"))
    cluster.create(numbers.given, numbers.kept)
    written = 0
    with ExitStack() as stack:
        members = stack.enter_context(TopicMembership(numbers.name, cluster.address))
        remote = stack.enter_context(FlightStores(timeout_s=5))
        instances = [
            Instance(tmp_path, name, cluster.address, numbers.name) for name in ("one", "two")
        ]
        for each in instances:
            stack.enter_context(each.nursery)
        wait_for(lambda: len(members.instances()) == len(instances), "both instances")
        queries = stack.enter_context(RoutedStores(members, remote, timeout_s=1.0))
        readers = Readers(queries, ss.TopicPartition(numbers.given.name, 0))

        def write() -> None:
            nonlocal written
            written += 1
            cluster.append(numbers.given, [Record(KEY, written, 1_000 + written)])
            wait_for(lambda: len(cluster.read(numbers.kept)) >= written, "what is kept")
            readers.kept = written

        write()
        with readers:
            for _ in range(3):
                write()
            readers.wait_for()
            [owner] = [
                each
                for each in queries.metadata.all_metadata()
                if each.with_role("last", Role.ACTIVE)
            ]
            wait_for(lambda: _copies(queries), "a copy")
            [killed] = [each for each in instances if each.instance == owner.instance]
            killed.nursery.kill()
            readers.wait_for("stale", "copy", "lag")  # of the copy, which knows no position
            readers.wait_for()  # of the successor
            for _ in range(3):
                write()
            readers.wait_for()

        assert readers.broken == []
        assert queries.store(STORE, max_lag=0).get(KEY) == written


@pytest.mark.spec("KFK-20", "SRV-22")
@pytest.mark.parametrize("protocol", ["consumer", pytest.param("classic", marks=pytest.mark.soak)])
def test_an_instance_without_a_task_is_ready(
    cluster: TestCluster, tmp_path: Path, protocol: str
) -> None:
    """There is one partition for three instances; all are asked for it, and all are ready.

    What is assigned nothing from beginning to end is never told so by the client (KIP-848): the
    second and third were never ready, and the third, which runs until it is idle, never ended.
    """
    numbers = Numbers(cluster.name("few"))
    cluster.create(numbers.given, numbers.kept)
    cluster.append(numbers.given, [Record(KEY, 7, 1_000)])
    options: dict[str, Any] = {"serve": "127.0.0.1:0", "group_protocol": protocol}
    with ThreadedInstance(cluster, numbers.topology(), tmp_path / "one", **options) as one:
        _check_number(one)
        with ThreadedInstance(cluster, numbers.topology(), tmp_path / "two", **options) as two:
            for each in (one, two):
                _check_number(each)
            third = KafkaRunner(
                numbers.topology(),
                cluster.address,
                tmp_path / "three",
                backend="sqlite",
                group_protocol=options["group_protocol"],
                until="idle",
            )
            assert third.run().running == ()


def _check_number(instance: ThreadedInstance) -> None:
    """See that an instance is ready, and knows the number."""
    wait_for(lambda: instance.runner.server is not None, "a server")
    server = instance.runner.server
    assert server is not None
    url, counts = server.url, server.queries.store(STORE, max_lag=0)
    wait_for(lambda: bool(_answer(f"{url}/ready")["ready"]), "readiness")
    wait_for(lambda: counts.get(KEY) == 7, "the number")


def test_what_cannot_be_served_is_refused_at_once(tmp_path: Path) -> None:
    """Before the cluster is asked for anything."""
    with pytest.raises(InvalidArgumentError, match="written 'host:port'"):
        KafkaRunner(Topology("shop"), "localhost:1", tmp_path, serve="7070")
    with pytest.raises(InvalidArgumentError, match="give a certificate"):
        KafkaRunner(Topology("shop"), "localhost:1", tmp_path, serve="0.0.0.0:7070")


@pytest.mark.spec("KFK-21")
def test_instances_are_known_by_their_topic(cluster: TestCluster) -> None:
    """Who says it is there is seen by all; who leaves is not; rubbish is nobody's."""
    name = cluster.name("members")
    one = InstanceMetadata(instance="one", host=Host("127.0.0.1", 1))
    with (
        TopicMembership(name, cluster.address) as here,
        TopicMembership(name, cluster.address) as there,
    ):
        here.publish(one)
        wait_for(lambda: there.instances() == {"one": one}, "the record")
        producer = cluster.producer()
        for value in (b"rubbish", b'{"beat": 1, "record": {"format": 99}}'):
            producer.produce(f"{name}-instances", key=b"two", value=value)
        producer.flush()
        here.publish(one)
        with TopicMembership(name, cluster.address) as late:
            assert late.instances() == {"one": one}
        here.leave("one")
        wait_for(lambda: there.instances() == {}, "that it is gone")
        assert here.instances() == {}

        assert cluster.settings_of(f"{name}-instances")["cleanup.policy"] == "compact,delete"
