"""Instances that are killed and stopped, brokers that go away: each key is numbered 1 to n."""

import logging
import random
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka_broker_process import BrokerProcess
from kafka_cluster import TestCluster, wait_for
from kafka_lives import Answers, Instance, Lives

_LOGGER = logging.getLogger(__name__)
_FAILPOINTS = ("kafka.changes-written", "kafka.committed", "kafka.store-committed")
_OF_WAYS = {
    "columns": "task.batch-processed",
    "runs": "task.batch-processed",
    "cache": "task.updates-given",
}
_WAYS = (*_OF_WAYS,)
_RESTORING = "kafka.batch-restored"
_ABORTED = "Assertion `eonce->refcnt > 0' failed"
"""librdkafka's issue 4605, see docs/caveats.md."""
_BACKLOG = 200
"""How many orders may wait while more are given."""
_ORDERS_TO_DIE = 1_000
"""How many orders an instance that is to die at a failpoint has the others for company."""
_SEED = 16
_SOAK_KILLS = 100
_SOAK_ZOMBIES = 20
_SOAK_RESTARTS = 10
_SOAK_LEAVES = 20
_SOAK_LOST_DISKS = 20
_SOAK_IDLE_RUNS = 5


class _Application:
    """Instances of one application, and what comes out of it."""

    def __init__(
        self,
        stack: ExitStack,
        broker: BrokerProcess,
        directory: Path,
        *,
        partitions: int,
        protocol: str,
        backend: str = "sqlite",
        changelog_format: str = "rows",
        ways: Sequence[str],
        has_snapshots: bool = False,
    ) -> None:
        self.broker = broker
        self.cluster = TestCluster(broker.address)
        self.lives = Lives(self.cluster.name("lives"), partitions)
        self.lives.create(self.cluster)
        arguments = {
            "address": broker.address,
            "name": self.lives.name,
            "partitions": partitions,
            "protocol": protocol,
            "backend": backend,
            "changelog_format": changelog_format,
            "snapshots": str(directory / "shared") if has_snapshots else None,
        }
        self.instances = [
            Instance(directory, str(number), {**arguments, "way": way})
            for number, way in enumerate(ways)
        ]
        self._gives_every_update = not {"columns", "cache"} & set(ways)
        for each in self.instances:
            stack.enter_context(each.nursery)
        self.answers = Answers(self.cluster, self.lives)
        stack.callback(self.answers.close)

    def wait_for(self, look: Callable[[], object], what: str) -> None:
        """Wait until that is so; if it never is, say where every thread of each instance is."""
        try:
            wait_for(look, what)
        except AssertionError as error:
            found = "\n".join(
                f"instance {number}:\n{each.stacks()}" for number, each in enumerate(self.instances)
            )
            pytest.fail(f"{error}; given: {self.lives.given}\n{found}")

    def kill(self, instance: Instance) -> None:
        """Kill an instance, wherever it is, and have it start again."""
        self._end(instance)
        instance.start()

    def _end(self, instance: Instance) -> None:
        """Kill an instance; librdkafka may have aborted it, when the broker was killed."""
        instance.signal(signal.SIGKILL)
        code = instance.code()
        told = "" if code == -signal.SIGKILL else instance.nursery.errors()

        assert code == -signal.SIGKILL or (code == -signal.SIGABRT and _ABORTED in told), told

    def die(self, instance: Instance, failpoint: str, at: int, *, begin: bool = False) -> None:
        """Have an instance that begins now die at *failpoint*, and start again.

        It may have no task that gets there, and tasks stay where they are: then the others leave.
        """
        if not begin:
            self._end(instance)
        instance.start(failpoint, at)
        away: list[Instance] = []
        enough = self.lives.given + _ORDERS_TO_DIE

        def has_died() -> bool:
            if not away and self.lives.given > enough:
                away.extend(each for each in self.instances if each is not instance)
                self._have_leave(away)
            return instance.ended()

        self.busy_until(has_died)
        assert instance.code() == -signal.SIGKILL, instance.nursery.errors()
        for each in away:
            each.start()
        instance.start()

    def busy_until(self, ended: Callable[[], bool]) -> None:
        """Give orders until that is so."""

        def more() -> bool:
            if self.answers.missing() < _BACKLOG:  # else a slow machine drowns in orders
                self.lives.give(self.cluster, 20)
            return ended()

        self.wait_for(more, "an instance that dies at its failpoint")

    def stop_and_wake(self, instance: Instance) -> None:
        """Stop an instance until others have done all of its work; then it goes on as a zombie."""
        instance.signal(signal.SIGSTOP)
        self.lives.give(self.cluster, 100)
        self.settle()
        instance.signal(signal.SIGCONT)

    def lose_disk(self, instance: Instance) -> None:
        """Kill an instance and delete what it had; its successor dies while it restores."""
        self._end(instance)
        shutil.rmtree(instance.state, ignore_errors=True)
        self.die(instance, _RESTORING, 1, begin=True)

    def leave(self, instance: Instance) -> None:
        """Have an instance leave the group, and come back."""
        self._have_leave([instance])
        instance.start()

    def _have_leave(self, instances: list[Instance]) -> None:
        """Ask *instances* to leave; one that has not begun dies of being asked."""
        for each in instances:
            each.signal(signal.SIGTERM)
        for each in instances:
            self.wait_for(each.ended, "an instance that leaves")
            assert each.code() in {0, -signal.SIGTERM}, each.nursery.errors()

    def run_until_idle(self) -> None:
        """Have all leave, and as many as they were do what is there, and end."""
        self._have_leave(self.instances)
        self.lives.give(self.cluster, 500)
        for each in self.instances:
            each.start(until="idle")
        for each in self.instances:
            self.wait_for(each.ended, "an instance that ends when it is idle")
            assert each.code() == 0, each.nursery.errors()
        self.settle()
        for each in self.instances:
            each.start()

    def settle(self) -> None:
        """Wait until everything that was given has come out."""
        self.wait_for(self.answers.are_all, "answers to all orders")

    def end(self) -> None:
        """Have all instances leave, and judge."""
        self._have_leave(self.instances)
        self.settle()
        self.answers.judge(every_update=self._gives_every_update)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.mark.crash
@pytest.mark.spec("KFK-6", "KFK-8", "KFK-9", "KFK-12", "KFK-13", "KFK-26", "PRC-55", "PRC-82")
def test_exactly_once_through_kills_and_a_zombie(
    stack: ExitStack, broker: BrokerProcess, tmp_path: Path
) -> None:
    """Two instances; one dies between transaction and stores, one with updates that waited.

    One processes columns, the other has a cache; the former is stopped as well.
    """
    application = _Application(
        stack, broker, tmp_path, partitions=4, protocol="consumer", ways=("columns", "cache")
    )
    one, other = application.instances
    one.start()
    other.start()
    application.lives.give(application.cluster, 200)
    application.settle()
    application.die(one, "kafka.committed", 2)
    application.lives.give(application.cluster, 100)
    application.die(other, "task.updates-given", 2)
    application.stop_and_wake(one)
    application.lives.give(application.cluster, 100)
    application.settle()
    application.end()


@pytest.mark.long
@pytest.mark.crash
@pytest.mark.spec("KFK-4", "KFK-6", "KFK-26", "KFK-27", "KFK-28", "PRC-95")
def test_exactly_once_in_a_classic_group(
    stack: ExitStack, broker: BrokerProcess, tmp_path: Path
) -> None:
    """The protocol before KIP-848, over frames; one dies with a run, one is stopped.

    A soak once stalled, and nobody knew where: so each instance tells, also a stopped one.
    """
    application = _Application(
        stack,
        broker,
        tmp_path,
        partitions=2,
        protocol="classic",
        changelog_format="frames",
        ways=("runs", "runs"),
    )
    one, other = application.instances
    one.start()
    other.start()
    application.lives.give(application.cluster, 100)
    application.settle()
    application.die(one, "task.batch-processed", 2)
    application.stop_and_wake(other)
    application.lives.give(application.cluster, 50)
    application.settle()
    one.signal(signal.SIGSTOP)
    assert "runner.py" in one.stacks()
    application.end()
    assert "it has ended" in one.stacks()


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.crash
@pytest.mark.spec(
    "KFK-6", "KFK-8", "KFK-9", "KFK-13", "KFK-26", "KFK-29", "PRC-55", "PRC-82", "PRC-95"
)
@pytest.mark.parametrize(("protocol", "backend"), [("consumer", "rocksdb"), ("classic", "sqlite")])
def test_exactly_once_through_a_hundred_kills(
    stack: ExitStack, mortal_broker: BrokerProcess, tmp_path: Path, protocol: str, backend: str
) -> None:
    """Three instances, eight partitions; whatever may happen to one, in any order.

    One of them processes columns, one runs, and one has a cache. They share snapshots.
    """
    application = _Application(
        stack,
        mortal_broker,
        tmp_path,
        partitions=8,
        protocol=protocol,
        backend=backend,
        changelog_format="rows" if protocol == "consumer" else "frames",
        ways=_WAYS,
        has_snapshots=True,
    )
    dice = random.Random(f"{_SEED} {protocol}")
    for each in application.instances:
        each.start()
    deeds = ["kill"] * _SOAK_KILLS + ["zombie"] * _SOAK_ZOMBIES + ["broker"] * _SOAK_RESTARTS
    deeds += ["leave"] * _SOAK_LEAVES + ["disk"] * _SOAK_LOST_DISKS + ["idle"] * _SOAK_IDLE_RUNS
    dice.shuffle(deeds)
    for number, deed in enumerate(deeds, 1):
        _LOGGER.info("%d of %d: %s; given: %d", number, len(deeds), deed, application.lives.given)
        application.lives.give(application.cluster, dice.randint(20, 200))
        instance = dice.choice(application.instances)
        if deed == "zombie":
            application.stop_and_wake(instance)
        elif deed == "broker":
            mortal_broker.ask("kill")
            mortal_broker.ask("start")
        elif deed == "leave":
            application.leave(instance)
        elif deed == "disk":
            application.lose_disk(instance)
        elif deed == "idle":
            application.run_until_idle()
        elif dice.random() < 0.5:
            way = _WAYS[application.instances.index(instance)]
            points = [*_FAILPOINTS, _OF_WAYS[way]]
            application.die(instance, dice.choice(points), dice.randint(1, 5))
        else:
            application.kill(instance)
    application.settle()
    application.end()
