"""One server for each module of tests: stores have names of their own."""

from collections.abc import Iterator

import pytest
from redis_server import PROGRAM, RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """Start a server that keeps every commit."""
    if PROGRAM is None:
        pytest.skip("there is no redis-server")
    with RedisServer() as server:
        yield server
