"""The owner's connection to the server: taking a store, asking it, and taking it again.

One connection for each store, and one call at a time (the store's lock sees to that). The
connection is also what shows others that the owner lives: the server knows at once when it ends.
"""

import json
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from statestores.errors import (
    CapabilityNotSupportedError,
    StoreCorruptedError,
    StoreLockedError,
    StoreMismatchError,
    UnsupportedFormatError,
)
from statestores.spi import Durability, KeyValue

from statestores_redis import scripts
from statestores_redis.failures import translated
from statestores_redis.options import RedisOptions

_FORMAT = b"1"
"""The version of the layout that `scripts` describes. A later one is refused (COM-14)."""

_LOST = (redis.ConnectionError, redis.TimeoutError)


class Taken(NamedTuple):
    """What a store holds when it is taken, but for its rows."""

    commits: int
    offsets: dict[bytes, bytes]
    position: dict[bytes, bytes]


class Server:
    """The keys of one store, on one server."""

    def __init__(self, name: str, options: RedisOptions) -> None:
        """Connect with the first call; *name* is what the keys of the store have in common."""
        self._name = name
        self._client = redis.Redis.from_url(
            options.url,
            single_connection_client=True,
            # Whether a call that was cut off took effect is ours to find out (COM-43): the driver
            # would send it again.
            retry=Retry(NoBackoff(), 0),
            socket_timeout=options.timeout_ms / 1000,
            protocol=2,
        )
        # The braces make one slot of them in a cluster.
        parts = ("meta", "rows", "order", "offsets", "position")
        self._keys = [f"statestores:{{{name}}}:{part}" for part in parts]
        self._scripts = {each: self._client.register_script(each) for each in scripts.EVERY}
        self._epoch = 0
        self._token = secrets.token_hex(16)
        self.is_lost = False
        """Whether a call was cut off: nothing is asked before `reclaim`."""

    def durability(self) -> Durability:
        """Return the highest durability that the server keeps, as it is configured.

        Raises:
            CapabilityNotSupportedError: It keeps nothing, or throws rows away when memory is short.
        """
        settings: dict[str, str] = self._call(self._client.config_get)
        if settings["appendonly"] != "yes":
            raise CapabilityNotSupportedError(
                "this Redis keeps nothing over its own end: a store needs 'appendonly yes', and "
                "'appendfsync always' for commits that survive a power failure"
            )
        policy = settings["maxmemory-policy"]
        if settings["maxmemory"] != "0" and policy.startswith("allkeys"):
            raise CapabilityNotSupportedError(
                f"this Redis evicts rows when its memory is full ('maxmemory-policy {policy}'); a "
                "store needs 'noeviction'"
            )
        always = settings["appendfsync"] == "always"
        return Durability.POWER_LOSS if always else Durability.PROCESS_CRASH

    def take(self, specification: KeyValue[bytes, bytes]) -> Taken:
        """Become the owner of the store, which is new or what *specification* says.

        Raises:
            StoreLockedError: Its owner lives.
            StoreMismatchError, UnsupportedFormatError: It is another store.
            StoreCorruptedError: It has rows, and nothing says what they are.
        """
        meta: dict[bytes, bytes] = self._call(lambda: self._client.hgetall(self._keys[0]))
        if meta:
            self._check(meta, specification)
        elif self._call(lambda: self._client.exists(*self._keys)):
            raise StoreCorruptedError(
                f"there are rows at {self._name!r}, and no description: restore the store"
            )
        described = json.dumps(specification.describe(), sort_keys=True)
        before = meta.get(b"epoch", b"")
        try:
            epoch, commits, offsets, position = self._script(
                scripts.TAKE, before, _FORMAT, described, self._owner(), self._token
            )
        except redis.ResponseError as error:
            if str(error).startswith(scripts.CHANGED):
                raise StoreLockedError(
                    f"another process is opening the store at {self._name!r}"
                ) from error
            raise translated(error, self._name) from error
        except redis.RedisError as error:
            raise translated(error, self._name) from error
        self._epoch = epoch
        return Taken(commits, _pairs(offsets), _pairs(position))

    def _check(self, meta: dict[bytes, bytes], specification: KeyValue[bytes, bytes]) -> None:
        if meta.get(b"format") != _FORMAT:
            raise UnsupportedFormatError(
                f"the store at {self._name!r} has format {meta.get(b'format')!r}, and this version "
                f"of statestores-redis knows {_FORMAT!r}"
            )
        stored, asked = json.loads(meta[b"specification"]), specification.describe()
        differing = [
            f"{field} is {stored.get(field)!r}, asked for was {asked.get(field)!r}"
            for field in sorted({*stored, *asked})
            if stored.get(field) != asked.get(field)
        ]
        if differing:
            raise StoreMismatchError(
                f"the store at {self._name!r} is another one: {'; '.join(differing)}"
            )
        owner = json.loads(meta.get(b"owner", b"null"))
        if owner is not None and self._is_alive(owner):
            raise StoreLockedError(
                f"the store at {self._name!r} is open in process {owner['pid']} on "
                f"{owner['host']}; a store has one owner"
            )

    def _is_alive(self, owner: dict[str, Any]) -> bool:
        """Return whether the owner's connection is there; their numbers begin anew with a run."""
        if owner["run"] != self._run():
            return False
        number = str(owner["client"])
        return bool(self._call(lambda: self._client.client_list(client_id=[number])))

    def _run(self) -> str:
        return str(self._call(lambda: self._client.info("server"))["run_id"])

    def _owner(self) -> str:
        client = self._call(self._client.client_id)
        told = {"run": self._run(), "client": client, "pid": os.getpid()}
        return json.dumps({**told, "host": socket.gethostname()})

    def reclaim(self) -> int:
        """Go on over a new connection, if nobody has taken the store; return how many commits.

        What the old connection still holds has no effect from now on, so the answer stays true.
        """
        told = self._token, self._owner()
        epoch, commits = self._call(lambda: self._script(scripts.RECLAIM, *told))
        self._epoch = epoch
        self.is_lost = False
        return int(commits)

    def ask(self, script: str, *arguments: Any) -> Any:
        """Return what the owner's *script* says.

        Raises:
            FencedError: Another process owns the store.
            StoreCorruptedError: Its keys are gone.
            StorageError: The server cannot be asked, or refuses.
        """
        return self._call(lambda: self._script(script, self._epoch, *arguments))

    def _script(self, script: str, *arguments: Any) -> Any:
        return self._scripts[script](keys=self._keys, args=arguments)

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except redis.RedisError as error:
            self.is_lost = self.is_lost or isinstance(error, _LOST)
            raise translated(error, self._name) from error
        except BaseException:  # an interrupt: the answer is still to come
            self.is_lost = True
            raise

    def release(self) -> None:
        """Give the store up, as far as the server can still be told; then hang up."""
        try:
            self._script(scripts.RELEASE, self._epoch)
        except redis.RedisError:
            # Fenced, or cut off: there is nothing left to give up, and the end of the connection
            # says the same.
            pass
        finally:
            self.hang_up()

    def hang_up(self) -> None:
        """End the connection."""
        self._client.close()


def _pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
