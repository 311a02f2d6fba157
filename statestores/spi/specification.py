"""What a store is: its name, kind, serdes and retention, as one value that the store remembers."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar, overload

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi import kinds
from statestores.spi.kinds import Kind
from statestores.spi.milliseconds import in_milliseconds
from statestores.spi.serde import Serde

K = TypeVar("K")
V = TypeVar("V")

MAX_NAME_LENGTH = 249
"""A store's name is part of its changelog's topic name, and this is the limit of Kafka's."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def _is_serde(value: object) -> bool:
    """Whether *value* has what a `Serde` has that a store calls. A class is no serde: make one."""
    named = isinstance(getattr(value, "name", None), str) and not isinstance(value, type)
    return named and all(callable(getattr(value, each, None)) for each in ("encode", "decode"))


@dataclass(frozen=True, slots=True, init=False)
class StoreSpecification(Generic[K, V]):
    """What every kind has. The store writes it down and checks it at each opening (COM-13)."""

    kind: ClassVar[Kind]
    """What is true of every store of this kind."""

    changeable: ClassVar[frozenset[str]] = frozenset()
    """The fields of the stored form in which an opening may differ from what is stored."""

    name: str
    """1 to 249 of the characters a-z, A-Z, 0-9, ``.``, ``_`` and ``-``."""

    key: Serde[K] | None
    """How keys become bytes; ``None`` means that they are bytes."""

    value: Serde[V] | None
    """How values become bytes; ``None`` means that they are bytes."""

    partitioner: str
    """The name of the function from key bytes to a partition (PAR-1)."""

    def _set(self, **values: object) -> None:
        """Set the fields of a frozen value; for the constructors only."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _set_common(
        self, name: str, key: Serde[K] | None, value: Serde[V] | None, partitioner: object
    ) -> None:
        if not isinstance(name, str):
            raise InvalidTypeError(f"a store's name is a str, got {name!r}")
        if (
            not _NAME.fullmatch(name)
            or name in {".", "..", ".checkpoint"}
            or len(name) > MAX_NAME_LENGTH
        ):
            raise InvalidArgumentError(
                f"a store's name has 1 to {MAX_NAME_LENGTH} of the characters a-z, A-Z, 0-9, "
                f"'.', '_' and '-', and is not '.', '..' or '.checkpoint'; got {name!r}"
            )
        for field, serde in (("key", key), ("value", value)):
            if serde is not None and not _is_serde(serde):
                raise InvalidTypeError(
                    f"{field} must be a serde, such as statestores.utf8, or None for bytes, got "
                    f"{serde!r}"
                )
        if not isinstance(partitioner, str) or not partitioner:
            raise InvalidTypeError(
                f"a partitioner is given by its name, such as 'murmur2', got {partitioner!r}"
            )
        self._set(name=name, key=key, value=value, partitioner=partitioner)

    def _set_duration(self, name: str, duration_ms: object) -> None:
        """Set the field *name* to a time span of at least a millisecond."""
        if type(duration_ms) is not int:
            raise InvalidTypeError(
                f"{name} must be an int of milliseconds, got {duration_ms!r}"
                f"{in_milliseconds(duration_ms)}"
            )
        if not 1 <= duration_ms < 1 << 63:
            raise InvalidArgumentError(f"{name} must be from 1 to 2**63 - 1, got {duration_ms!r}")
        self._set(**{name: duration_ms})

    def describe(self) -> dict[str, str | int]:
        """Return the specification in stored form: plain JSON values, serdes by name."""
        return {
            "kind": self.kind.name,
            "name": self.name,
            "key": self.key.name if self.key else "bytes",
            "value": self.value.name if self.value else "bytes",
            "partitioner": self.partitioner,
        }


class TtlClock(Enum):
    """What the age of a value is measured by (TTL-1)."""

    EVENT = "event"
    """Stream time: the highest timestamp that the store has seen."""

    WALL = "wall"
    """The clock of the machine that reads."""

    def __repr__(self) -> str:
        """Return the name, so that the representation of a specification can be read back."""
        return f"{type(self).__name__}.{self.name}"


@dataclass(frozen=True, slots=True, init=False)
class KeyValue(StoreSpecification[K, V]):
    """A key-value store: the latest value of each key (KVS).

    Without serdes, keys and values are bytes: ``KeyValue("counts")`` is a
    ``KeyValue[bytes, bytes]``. A store with a timestamp beside each value is a
    `TimestampedKeyValue`, which is another kind: its puts differ.
    """

    kind: ClassVar[Kind] = kinds.KEY_VALUE

    @overload
    def __init__(self: "KeyValue[bytes, bytes]", name: str, *, partitioner: str = ...) -> None: ...
    @overload
    def __init__(
        self: "KeyValue[K, bytes]", name: str, *, key: Serde[K], partitioner: str = ...
    ) -> None: ...
    @overload
    def __init__(
        self: "KeyValue[bytes, V]", name: str, *, value: Serde[V], partitioner: str = ...
    ) -> None: ...
    @overload
    def __init__(
        self, name: str, *, key: Serde[K], value: Serde[V], partitioner: str = ...
    ) -> None: ...
    def __init__(
        self, name: str, *, key: Any = None, value: Any = None, partitioner: str = "murmur2"
    ) -> None:
        """Describe a key-value store.

        Raises:
            InvalidTypeError, InvalidArgumentError: The name cannot be one.
        """
        self._set_common(name, key, value, partitioner)


@dataclass(frozen=True, slots=True, init=False)
class TimestampedKeyValue(StoreSpecification[K, V]):
    """A key-value store with a timestamp beside each value, which may expire (TKV, TTL, KIP-258).

    The time to live may be another, or none, at each opening: it is a rule of what reads show.
    """

    kind: ClassVar[Kind] = kinds.TIMESTAMPED_KEY_VALUE

    changeable: ClassVar[frozenset[str]] = frozenset({"ttl_ms", "ttl_clock"})

    ttl_ms: int | None
    """How long a value is there, from 1; ``None`` for ever."""

    ttl_clock: TtlClock
    """What its age is measured by."""

    @overload
    def __init__(
        self: "TimestampedKeyValue[bytes, bytes]",
        name: str,
        *,
        ttl_ms: int | None = ...,
        ttl_clock: TtlClock | str = ...,
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "TimestampedKeyValue[K, bytes]",
        name: str,
        *,
        key: Serde[K],
        ttl_ms: int | None = ...,
        ttl_clock: TtlClock | str = ...,
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "TimestampedKeyValue[bytes, V]",
        name: str,
        *,
        value: Serde[V],
        ttl_ms: int | None = ...,
        ttl_clock: TtlClock | str = ...,
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        key: Serde[K],
        value: Serde[V],
        ttl_ms: int | None = ...,
        ttl_clock: TtlClock | str = ...,
        partitioner: str = ...,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        *,
        key: Any = None,
        value: Any = None,
        ttl_ms: int | None = None,
        ttl_clock: TtlClock | str = TtlClock.EVENT,
        partitioner: str = "murmur2",
    ) -> None:
        """Describe a key-value store with timestamps.

        Raises:
            InvalidTypeError, InvalidArgumentError: The name, the time to live or its clock cannot
                be one.
        """
        self._set_common(name, key, value, partitioner)
        if ttl_ms is not None and type(ttl_ms) is not int:
            raise InvalidTypeError(
                f"ttl_ms must be an int or None, got {ttl_ms!r}{in_milliseconds(ttl_ms)}"
            )
        if ttl_ms is not None and not 1 <= ttl_ms < 1 << 63:
            raise InvalidArgumentError(f"ttl_ms must be from 1 to 2**63 - 1, got {ttl_ms!r}")
        try:
            clock = TtlClock(ttl_clock)
        except ValueError as error:
            known = ", ".join(repr(known.value) for known in TtlClock)
            raise InvalidArgumentError(
                f"ttl_clock must be one of {known}, got {ttl_clock!r}"
            ) from error
        self._set(ttl_ms=ttl_ms, ttl_clock=clock)

    def describe(self) -> dict[str, str | int]:
        """Return the specification in stored form; a time to live of 0 is none."""
        described = StoreSpecification.describe(self)
        described["ttl_ms"] = self.ttl_ms or 0
        described["ttl_clock"] = self.ttl_clock.value
        return described


@dataclass(frozen=True, slots=True, init=False)
class Versioned(StoreSpecification[K, V]):
    """A versioned store: every value of each key within a history retention (VRS, KIP-889)."""

    kind: ClassVar[Kind] = kinds.VERSIONED

    history_retention_ms: int
    """How far behind stream time reads go, and how late a put may come; from 0."""

    @overload
    def __init__(
        self: "Versioned[bytes, bytes]",
        name: str,
        *,
        history_retention_ms: int,
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "Versioned[K, bytes]",
        name: str,
        *,
        history_retention_ms: int,
        key: Serde[K],
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "Versioned[bytes, V]",
        name: str,
        *,
        history_retention_ms: int,
        value: Serde[V],
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        history_retention_ms: int,
        key: Serde[K],
        value: Serde[V],
        partitioner: str = ...,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        *,
        history_retention_ms: int,
        key: Any = None,
        value: Any = None,
        partitioner: str = "murmur2",
    ) -> None:
        """Describe a versioned store.

        Raises:
            InvalidTypeError, InvalidArgumentError: The name or the retention cannot be one.
        """
        self._set_common(name, key, value, partitioner)
        if type(history_retention_ms) is not int:
            raise InvalidTypeError(
                f"history_retention_ms must be an int, got {history_retention_ms!r}"
                f"{in_milliseconds(history_retention_ms)}"
            )
        if not 0 <= history_retention_ms < 1 << 63:
            raise InvalidArgumentError(
                f"history_retention_ms must be from 0 to 2**63 - 1, got {history_retention_ms!r}"
            )
        self._set(history_retention_ms=history_retention_ms)

    def describe(self) -> dict[str, str | int]:
        """Return the specification in stored form, the retention included."""
        described = StoreSpecification.describe(self)
        described["history_retention_ms"] = self.history_retention_ms
        return described
