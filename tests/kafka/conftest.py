"""A broker for the tests of this directory, which workers share; and the modules in `kit`."""

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from forked_workers import RUN_DIRECTORY

_HERE = Path(__file__).parent
KIT = str(_HERE / "kit")

if KIT not in sys.path:
    sys.path.insert(0, KIT)

from kafka_broker_process import (  # noqa: E402  # of the kit
    BrokerProcess,
    SharedBroker,
    UnavailableBrokerError,
)
from kafka_cluster import TestCluster  # noqa: E402  # of the kit


class _Brokers:
    """The broker that this worker shares with others, as long as it has tests of this directory."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._all: list[SharedBroker] = []
        self.current: tuple[SharedBroker, TestCluster] | None = None
        self._refusal: UnavailableBrokerError | None = None

    def get(self) -> tuple[SharedBroker, TestCluster]:
        """Return the broker and its cluster; join or start one first where there is none."""
        if self._refusal is not None:
            raise self._refusal
        if self.current is None:
            try:
                broker = SharedBroker(self._place)
            except UnavailableBrokerError as error:
                self._refusal = error
                raise
            self._all.append(broker)
            self.current = broker, TestCluster(broker.address)
        return self.current

    def leave(self) -> None:
        """Need it no longer."""
        if self.current is not None:
            broker, cluster = self.current
            self.current = None
            cluster.close()
            broker.leave()

    def end(self) -> None:
        """Leave, and wait for the end of what this worker has started."""
        self.leave()
        for each in self._all:
            each.__exit__(None, None, None)


_BROKERS = pytest.StashKey[_Brokers]()


@pytest.fixture(scope="session")
def _brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[_Brokers]:
    """Give the broker of all workers, of which each has a directory in that of the run."""
    alone = tmp_path_factory.getbasetemp()
    brokers = _Brokers(request.config.stash.get(RUN_DIRECTORY, alone) / "kafka")
    request.config.stash[_BROKERS] = brokers
    yield brokers
    brokers.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Leave the broker after the last test of this directory: an idle one is no idle process."""
    yield
    brokers = item.config.stash.get(_BROKERS, None)
    if brokers is not None and (nextitem is None or _HERE not in nextitem.path.parents):
        brokers.leave()


@pytest.fixture
def broker(_brokers: _Brokers) -> BrokerProcess:
    """Give a broker; skip by name where there is no Java or Maven, unless one is required."""
    with _unless_unavailable():
        return _brokers.get()[0]


@pytest.fixture
def cluster(broker: BrokerProcess, _brokers: _Brokers) -> TestCluster:
    """Give the cluster of the broker."""
    return _brokers.get()[1]


@pytest.fixture
def mortal_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Give a broker that may be killed, to one test."""
    with _unless_unavailable():
        process = BrokerProcess(tmp_path / "broker", controller_apart=True)
    with process:
        yield process


@contextmanager
def _unless_unavailable() -> Iterator[None]:
    try:
        yield
    except UnavailableBrokerError as error:
        if os.environ.get("STATESTORES_REQUIRE_KAFKA") == "1":
            raise
        pytest.skip(f"no Kafka broker: {error}")
