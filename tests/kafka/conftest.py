"""A broker for the tests of this directory, in each of two workers; and the modules in `kit`."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

KIT = str(Path(__file__).parent / "kit")

if KIT not in sys.path:
    sys.path.insert(0, KIT)

from kafka_broker_process import BrokerProcess, UnavailableBrokerError  # noqa: E402  # of the kit
from kafka_cluster import TestCluster  # noqa: E402  # of the kit


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Give a broker; skip by name where there is no Java or Maven, unless one is required."""
    with _started(tmp_path_factory.mktemp("kafka"), controller_apart=False) as process:
        yield process


@pytest.fixture
def mortal_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Give a broker that may be killed, to one test."""
    with _started(tmp_path / "broker", controller_apart=True) as process:
        yield process


def _started(directory: Path, *, controller_apart: bool) -> BrokerProcess:
    try:
        return BrokerProcess(directory, controller_apart=controller_apart)
    except UnavailableBrokerError as error:
        if os.environ.get("STATESTORES_REQUIRE_KAFKA") == "1":
            raise
        pytest.skip(f"no Kafka broker: {error}")


@pytest.fixture(scope="session")
def cluster(broker: BrokerProcess) -> TestCluster:
    """Give the cluster of the broker."""
    return TestCluster(broker.address)
