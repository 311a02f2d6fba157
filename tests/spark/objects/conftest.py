"""An S3 server for Spark: one thread, asked whether it keeps its word."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

for _ROOM in ("object_log", "resharding"):
    _KIT = str(Path(__file__).parents[2] / _ROOM / "kit")
    if _KIT not in sys.path:
        sys.path.append(_KIT)

from s3 import Bucket, Server  # noqa: E402  # after the paths to it


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server."""
    with Server() as running:
        running.probe()
        yield running


@pytest.fixture
def bucket(server: Server) -> Bucket:
    """An empty bucket."""
    return server.bucket()


@pytest.fixture
def reached(bucket: Bucket) -> dict[str, str]:
    """The options by which Spark reaches the bucket."""
    return bucket.spark_options
