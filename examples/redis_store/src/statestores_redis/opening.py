"""Opening a store, as the contract's door two has it: from a place and a specification."""

import os
from collections.abc import Mapping
from typing import TypeVar, cast

from statestores.errors import CapabilityNotSupportedError
from statestores.serdes import typed
from statestores.spi import KeyValue, KeyValueStore, parse_options

from statestores_redis.options import RedisOptions
from statestores_redis.server import Server
from statestores_redis.store import RedisKeyValueStore

K = TypeVar("K")
V = TypeVar("V")


def open_store(
    path: str | os.PathLike[str],
    specification: KeyValue[K, V],
    options: Mapping[str, object] | None = None,
) -> KeyValueStore[K, V]:
    """Open the store at *path*, a new one or that one again; *options* are `RedisOptions`.

    The path is what its keys on the server begin with; nothing is written to a disk here. Serdes of
    the specification are put on top, by `statestores.serdes.typed`.

    Raises:
        CapabilityNotSupportedError: It is no key-value store, or the server keeps nothing.
        StoreLockedError: Its owner lives.
        StoreMismatchError, UnsupportedFormatError: It is another store.
        StorageError: The server cannot be asked.
    """
    if type(specification) is not KeyValue:
        raise CapabilityNotSupportedError(
            f"statestores-redis has key-value stores only, not {specification!r}"
        )
    chosen = parse_options(RedisOptions, options)
    server = Server(os.fspath(path), chosen)
    try:
        # The store of bytes is described as what it becomes (COM-13).
        described = cast("KeyValue[bytes, bytes]", specification)
        store = RedisKeyValueStore(server, described, server.durability(), chosen.durability)
    except BaseException:
        server.hang_up()
        raise
    return typed(store, specification)
