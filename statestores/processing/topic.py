"""Topics: the named logs that a topology reads and writes, with the types of their records."""

import re
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.serdes import raw
from statestores.spi import Serde

K = TypeVar("K")
V = TypeVar("V")

MAX_NAME_LENGTH = 249
"""Kafka's limit, and that of a directory's name."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, init=False)
class Topic(Generic[K, V]):
    """A topic. Two with equal fields are one; a topology has one of each name."""

    name: str
    """1 to 249 of the characters a-z, A-Z, 0-9, ``.``, ``_`` and ``-``."""

    key: Serde[K]
    """How keys become bytes; by default they are bytes."""

    value: Serde[V]
    """How values become bytes; by default they are bytes."""

    partitions: int | None
    """How many partitions it has; ``None`` leaves that to whoever runs the topology. Said, it is
    compared with the topics that it is joined with (PRC-4)."""

    partitioner: str
    """The name of the function from key bytes to a partition (PAR-1)."""

    @overload
    def __init__(
        self: "Topic[bytes, bytes]",
        name: str,
        *,
        partitions: int | None = ...,
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "Topic[K, bytes]",
        name: str,
        *,
        key: Serde[K],
        partitions: int | None = ...,
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "Topic[bytes, V]",
        name: str,
        *,
        value: Serde[V],
        partitions: int | None = ...,
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        key: Serde[K],
        value: Serde[V],
        partitions: int | None = ...,
        partitioner: str = ...,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        *,
        key: Any = None,
        value: Any = None,
        partitions: int | None = None,
        partitioner: str = "murmur2",
    ) -> None:
        """Describe a topic.

        Raises:
            InvalidTypeError, InvalidArgumentError: A field cannot be one.
        """
        check_topic_name(name)
        for field, serde in (("key", key), ("value", value)):
            if serde is not None and not _is_serde(serde):
                raise InvalidTypeError(
                    f"{field} must be a serde, such as statestores.utf8, or None for bytes, got "
                    f"{serde!r}"
                )
        if partitions is not None and type(partitions) is not int:
            raise InvalidTypeError(f"partitions must be an int, got {partitions!r}")
        if partitions is not None and partitions < 1:
            raise InvalidArgumentError(f"partitions must be from 1, got {partitions!r}")
        named: object = partitioner
        if not isinstance(named, str) or not named:
            raise InvalidTypeError(
                f"a partitioner is given by its name, such as 'murmur2', got {partitioner!r}"
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "key", raw if key is None else key)
        object.__setattr__(self, "value", raw if value is None else value)
        object.__setattr__(self, "partitions", partitions)
        object.__setattr__(self, "partitioner", partitioner)


def _is_serde(value: object) -> bool:
    """Whether *value* can encode and decode. A class cannot: make one of it."""
    able = all(callable(getattr(value, each, None)) for each in ("encode", "decode"))
    return able and not isinstance(value, type)


def check_topic_name(name: object, what: str = "topic") -> None:
    """Accept what a topic can be called, or *what* begins the names of topics.

    Raises:
        InvalidTypeError, InvalidArgumentError: It cannot.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"a {what}'s name is a str, got {name!r}")
    if not _NAME.fullmatch(name) or name in {".", ".."} or len(name) > MAX_NAME_LENGTH:
        raise InvalidArgumentError(
            f"a {what}'s name has 1 to {MAX_NAME_LENGTH} of the characters a-z, A-Z, 0-9, '.', "
            f"'_' and '-', and is not '.' or '..'; got {name!r}"
        )
