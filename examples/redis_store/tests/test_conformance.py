"""Everything that the contract asks of a key-value store, proved of this one."""

import functools

import pytest
from redis_server import RedisServer
from statestores_conformance import KeyValueStoreTests, OpenKeyValueStore, StoreCrashTests

from statestores_redis import open_store


class TestRedis(KeyValueStoreTests):
    """The store as users open it."""

    TestCrashes = StoreCrashTests

    @pytest.fixture
    def open_key_value_store(self, server: RedisServer) -> OpenKeyValueStore:
        """Open a store whose name is its path; other processes find the function by its name."""
        return functools.partial(open_store, options={"url": server.url})
