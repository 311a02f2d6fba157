"""Key-value stores whose rows, offsets and position a Redis server keeps: a store at door two."""

from statestores_redis.opening import open_store
from statestores_redis.options import RedisOptions
from statestores_redis.store import RedisKeyValueStore

__all__ = ["RedisKeyValueStore", "RedisOptions", "open_store"]
