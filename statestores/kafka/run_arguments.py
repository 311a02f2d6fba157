"""What a run on Kafka may be told, and what is refused before anything is opened or asked."""

from typing import Literal, TypeAlias

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.processing.dsl.topology import Topology

Guarantee: TypeAlias = Literal["exactly_once", "at_least_once"]
"""What becomes of a record when an instance dies: it counts once, or once or more."""

ChangelogFormat: TypeAlias = Literal["rows", "frames"]
"""What changelog topics have: Kafka Streams' records (KFK-10), or the library's frames (KFK-27)."""

Until: TypeAlias = Literal["stopped", "idle"]
"""When a run ends: when it is told to, or when everything that is there is processed."""

_MOST_COPIES = 10_000
"""What the client takes; no cluster has as many brokers."""


def check_topology(topology: object) -> None:
    """Refuse what is no topology.

    Raises:
        InvalidTypeError: It is none.
    """
    if not isinstance(topology, Topology):
        raise InvalidTypeError(f"expected a Topology, got {topology!r}")


def check_words(
    *,
    guarantee: str,
    group_protocol: str,
    offset_reset: str,
    until: str,
    changelog_format: str,
) -> None:
    """Refuse words that are not among those of their argument.

    Raises:
        InvalidArgumentError: One is not.
    """
    for name, value, allowed in (
        ("guarantee", guarantee, ("exactly_once", "at_least_once")),
        ("group_protocol", group_protocol, ("consumer", "classic")),
        ("offset_reset", offset_reset, ("earliest", "latest", "error")),
        ("until", until, ("stopped", "idle")),
        ("changelog_format", changelog_format, ("rows", "frames")),
    ):
        if value not in allowed:
            raise InvalidArgumentError(
                f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}"
            )


def check_replicas(*, replication_factor: int, standby_replicas: int) -> None:
    """Refuse numbers of copies that cannot be.

    Raises:
        InvalidArgumentError: One is no ``int``, or out of its range.
    """
    if type(replication_factor) is not int or not (
        replication_factor == -1 or 1 <= replication_factor <= _MOST_COPIES
    ):
        raise InvalidArgumentError(
            f"replication_factor must be -1, for the brokers' own, or an int from 1 to "
            f"{_MOST_COPIES}, got {replication_factor!r}"
        )
    if type(standby_replicas) is not int or standby_replicas < 0:
        raise InvalidArgumentError(
            f"standby_replicas must be an int from 0, got {standby_replicas!r}"
        )
