"""The settings of the Kafka clients: what the user says, and what this room decides (KFK-3).

Names are librdkafka's. One with the prefix ``consumer.``, ``producer.`` or ``admin.`` is for that
client only.
"""

import logging
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from statestores.errors import InvalidOptionError, InvalidTypeError

GroupProtocol: TypeAlias = Literal["consumer", "classic"]
"""KIP-848, which needs Kafka 4 or newer, or the protocol before it."""

OffsetReset: TypeAlias = Literal["earliest", "latest", "error"]
"""Where a group begins a partition of which it has committed nothing."""

CLIENT_LOGGER = logging.getLogger("statestores.kafka.client")
"""Where the clients' own messages go."""

_CLIENTS = ("consumer", "producer", "admin")
_DECIDED = {
    "bootstrap.servers": "pass it as bootstrap_servers",
    "group.id": "it is the topology's name",
    "group.protocol": "pass it as group_protocol",
    "group.remote.assignor": "tasks that read several topics need their partitions together",
    "partition.assignment.strategy": "tasks that read several topics need them together",
    "enable.auto.commit": "a task commits its offsets with its stores",
    "enable.auto.offset.store": "a task commits its offsets with its stores",
    "enable.partition.eof": "it tells which partitions are read to their ends",
    "auto.offset.reset": "pass it as offset_reset",
    "isolation.level": "what is not committed is not processed",
    "enable.idempotence": "a changelog must have the order of the store's commits",
    "max.in.flight": "of two requests under way, the client may lose the first",
    "max.in.flight.requests.per.connection": "of two under way, the client may lose the first",
    "transactional.id": "it is made of the topology's name and the instance's",
    "on_delivery": "deliveries are part of the commit",
}
_MAX_BYTES = 1_000_000
"""librdkafka's default of message.max.bytes."""
_BATCH_BYTES = 1_000_000
"""librdkafka's default of batch.size."""
_SILENCE_MS = 60_000
"""librdkafka's default of socket.timeout.ms."""
_TRANSACTION_TIMEOUT_MS = 10_000
"""Kafka Streams' default: as long as a dead instance's transaction may hide what follows it."""


class ClientSettings:
    """Makes the settings of each client."""

    def __init__(self, bootstrap_servers: str, more: Mapping[str, Any] | None = None) -> None:
        """Use *more* for every client, with what has a client's prefix for that one.

        Raises:
            InvalidTypeError: The servers are no ``str``, *more* is no mapping from ``str``, or a
                callback in it is no function.
            InvalidOptionError: *more* has what is decided here.
        """
        servers: object = bootstrap_servers
        if not isinstance(servers, str) or not servers:
            raise InvalidTypeError(
                f"bootstrap_servers is a str such as 'host:9092,other:9092', got {servers!r}"
            )
        given: object = {} if more is None else more
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise InvalidTypeError(
                f"settings are a mapping from librdkafka's names to values, got {given!r}"
            )
        self.bootstrap_servers = servers
        self._common: dict[str, Any] = {}
        self._own: dict[str, dict[str, Any]] = {client: {} for client in _CLIENTS}
        for name, value in given.items():
            client, _, rest = name.partition(".")
            target, bare = (self._own[client], rest) if client in _CLIENTS else (self._common, name)
            if bare in _DECIDED:
                raise InvalidOptionError(
                    f"the setting {name!r} is not yours to choose: {_DECIDED[bare]}"
                )
            if bare.endswith("_cb") and not callable(value):
                raise InvalidTypeError(f"the setting {name!r} is a function, got {value!r}")
            target[bare] = value

    def consumer(
        self,
        group: str,
        *,
        protocol: GroupProtocol,
        assignor: str,
        offset_reset: OffsetReset,
        instance: str,
    ) -> dict[str, Any]:
        """Return the settings of a member of *group*; its client's name ends with *instance*."""
        chosen = (
            {"group.protocol": "consumer", "group.remote.assignor": assignor}
            if protocol == "consumer"
            else {"group.protocol": "classic", "partition.assignment.strategy": assignor}
        )
        own = {**self._common, **self._own["consumer"]}
        return {
            **own,
            **_READS_COMMITTED,
            **chosen,
            "client.id": f"{own.get('client.id', group)}-{instance}",
            # Where the group begins is found out before; what is deleted meanwhile is passed over,
            # and nothing behind it.
            "auto.offset.reset": "error" if offset_reset == "error" else "earliest",
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": group,
        }

    def reader(self, group: str) -> dict[str, Any]:
        """Return the settings of a consumer that is no member, and is told what to read.

        It may ask for the offsets of *group*, and waits for those that are being committed.
        """
        own = {name: value for name, value in self._own["consumer"].items() if name in _ALSO_READER}
        return {
            **self._common,
            **own,
            **_READS_COMMITTED,
            "auto.offset.reset": "error",
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": group,
        }

    def producer(
        self, transactional_id: str | None, largest_batch: int | None = None
    ) -> dict[str, Any]:
        """Return the settings of a producer; *transactional_id* makes it one of transactions.

        Of several records it sends no more than *largest_batch* bytes at once.
        """
        settings: dict[str, Any] = {"linger.ms": 5}
        if largest_batch is not None and largest_batch < _BATCH_BYTES:
            settings["batch.size"] = largest_batch
        if transactional_id is not None:
            settings |= {"transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS}
        settings |= {**self._common, **self._own["producer"], **_LOSES_NOTHING}
        if transactional_id is not None:
            settings["transactional.id"] = transactional_id
        return {**settings, "bootstrap.servers": self.bootstrap_servers}

    @property
    def largest_bytes(self) -> int:
        """How large a record may be that a producer sends.

        Raises:
            InvalidOptionError: The setting is no number.
        """
        return _number("message.max.bytes", self.producer(None), _MAX_BYTES, "bytes")

    @property
    def silence_seconds(self) -> float:
        """After how long a member or its producer gives a connection up that does not answer.

        Raises:
            InvalidOptionError: The setting is no number.
        """
        clients = (self.producer(None), {**self._common, **self._own["consumer"]})
        return max(_number("socket.timeout.ms", each, _SILENCE_MS, "ms") for each in clients) / 1000

    @property
    def compresses(self) -> bool:
        """Whether a producer may compress what it sends."""
        given = self.producer(None)
        names = ("compression.type", "compression.codec")
        return any(given.get(name, "none") != "none" for name in names)

    def admin(self) -> dict[str, Any]:
        """Return the settings of the client that creates topics and looks at them."""
        return {
            **self._common,
            **self._own["admin"],
            "bootstrap.servers": self.bootstrap_servers,
        }


def _number(name: str, settings: Mapping[str, Any], default: int, unit: str) -> int:
    """Return what *settings* say of *name*, or its *default*.

    Raises:
        InvalidOptionError: It is no number.
    """
    given = settings.get(name, default)
    try:
        return int(given)
    except (TypeError, ValueError) as error:
        raise InvalidOptionError(
            f"the setting {name!r} is a number of {unit}, got {given!r}"
        ) from error


_LOSES_NOTHING = {
    "enable.idempotence": True,
    # Of several, a broker may refuse the first, which it does not lead the partition for yet, and
    # take the second: it knows nothing of this producer there, so any sequence number will do. The
    # client then takes the first for delivered, too (see the caveats).
    "max.in.flight.requests.per.connection": 1,
}
_READS_COMMITTED = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}
_ALSO_READER = (
    "fetch.min.bytes",
    "fetch.max.bytes",
    "fetch.wait.max.ms",
    "max.partition.fetch.bytes",
    "fetch.message.max.bytes",
    "queued.min.messages",
    "queued.max.messages.kbytes",
    "client.id",
    "client.rack",
)
"""What of the member's settings holds for other consumers too."""
