"""The driver's exceptions, and the replies of our scripts, in the words of the contract."""

import redis
from statestores.errors import FencedError, StateStoreError, StorageError, StoreCorruptedError

FENCED, GONE = "FENCED", "GONE"
"""How the error replies of our scripts begin: see `scripts`."""


def translated(error: redis.RedisError, name: str) -> StateStoreError:
    """Return what *error* means for the store whose keys begin with *name*."""
    said = str(error)
    if said.startswith(FENCED):
        return FencedError(
            f"another process has opened the store at {name!r} and owns it now; close this one"
        )
    if said.startswith(GONE):
        return StoreCorruptedError(
            f"the keys of the store at {name!r} are gone from the server: somebody flushed or "
            "evicted them, or the server lost its files; restore the store"
        )
    return StorageError(f"Redis cannot do what the store at {name!r} asks of it: {said}")
