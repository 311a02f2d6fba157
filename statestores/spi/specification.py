"""What a store is: its name, kind, serdes and retention, as one value that the store remembers."""

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi import kinds
from statestores.spi.kinds import Kind
from statestores.spi.milliseconds import in_milliseconds
from statestores.spi.serde import Serde

if TYPE_CHECKING:
    # Without a serde there are bytes, and a checker knows it from the default (PEP 696), which is
    # part of Python from 3.13 on. Nothing is installed for it: checkers bring these types along.
    import typing_extensions

    K = typing_extensions.TypeVar("K", default=bytes)
    V = typing_extensions.TypeVar("V", default=bytes)
else:
    K = TypeVar("K")
    V = TypeVar("V")

MAX_NAME_LENGTH = 249
"""A store's name is part of its changelog's topic name, and this is the limit of Kafka's."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def _is_serde(value: object) -> bool:
    """Whether *value* has what a store calls of a `Serde`. A class is not a serde: make one."""
    named = isinstance(getattr(value, "name", None), str) and not isinstance(value, type)
    return named and all(callable(getattr(value, each, None)) for each in ("encode", "decode"))


def check_duration(name: str, duration_ms: object, *, least_ms: int = 1) -> None:
    """Accept a time span of the field *name*, from *least_ms*.

    Raises:
        InvalidTypeError, InvalidArgumentError: It cannot be one.
    """
    if type(duration_ms) is not int:
        raise InvalidTypeError(
            f"{name} must be an int of milliseconds, got {duration_ms!r}"
            f"{in_milliseconds(duration_ms)}"
        )
    if not least_ms <= duration_ms < 1 << 63:
        raise InvalidArgumentError(
            f"{name} must be from {least_ms} to 2**63 - 1, got {duration_ms!r}"
        )


@dataclass(frozen=True, slots=True)
class StoreSpecification(Generic[K, V]):
    """What every kind has. The store writes it down and checks it at each opening (COM-13).

    An invalid specification is refused when it is made, with an `InvalidTypeError` or an
    `InvalidArgumentError`.
    """

    kind: ClassVar[Kind]
    """What is true of every store of this kind."""

    changeable: ClassVar[frozenset[str]] = frozenset()
    """The fields of the stored form in which an opening may differ from what is stored."""

    name: str
    """1 to 249 of the characters a-z, A-Z, 0-9, ``.``, ``_`` and ``-``."""

    key: Serde[K] | None = field(default=None, kw_only=True)
    """How keys become bytes; ``None`` means that they are bytes."""

    value: Serde[V] | None = field(default=None, kw_only=True)
    """How values become bytes; ``None`` means that they are bytes."""

    partitioner: str = field(default="murmur2", kw_only=True)
    """The name of the function from key bytes to a partition (PAR-1); by default Kafka's."""

    def __post_init__(self) -> None:
        """Refuse what every kind refuses; kinds add what is their own."""
        given: object = self.name  # what the annotation says holds after this
        if not isinstance(given, str):
            raise InvalidTypeError(f"a store's name is a str, got {given!r}")
        if (
            not _NAME.fullmatch(given)
            or given in {".", "..", ".checkpoint"}
            or len(given) > MAX_NAME_LENGTH
        ):
            raise InvalidArgumentError(
                f"a store's name has 1 to {MAX_NAME_LENGTH} of the characters a-z, A-Z, 0-9, "
                f"'.', '_' and '-', and is not '.', '..' or '.checkpoint'; got {given!r}"
            )
        for name, serde in (("key", self.key), ("value", self.value)):
            if serde is not None and not _is_serde(serde):
                raise InvalidTypeError(
                    f"{name} must be a serde, such as statestores.utf8, or None for bytes, got "
                    f"{serde!r}"
                )
        partitioner: object = self.partitioner
        if not isinstance(partitioner, str) or not partitioner:
            raise InvalidTypeError(
                f"a partitioner is given by its name, such as 'murmur2', got {partitioner!r}"
            )

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


@dataclass(frozen=True, slots=True)
class KeyValue(StoreSpecification[K, V]):
    """A key-value store: the latest value of each key (KVS).

    Without serdes, keys and values are bytes: ``KeyValue("counts")`` is a
    ``KeyValue[bytes, bytes]``. A store with a timestamp beside each value is a
    `TimestampedKeyValue`, which is another kind: its puts differ.
    """

    kind: ClassVar[Kind] = kinds.KEY_VALUE


@dataclass(frozen=True, slots=True, init=False)
class TimestampedKeyValue(StoreSpecification[K, V]):
    """A key-value store with a timestamp beside each value, which may expire (TKV, TTL, KIP-258).

    The time to live may differ, or be none, at each opening: it is a rule for what reads show.
    """

    kind: ClassVar[Kind] = kinds.TIMESTAMPED_KEY_VALUE

    changeable: ClassVar[frozenset[str]] = frozenset({"ttl_ms", "ttl_clock"})

    ttl_ms: int | None
    """How long a value lasts, from 1; ``None`` for ever."""

    ttl_clock: TtlClock
    """What its age is measured by."""

    def __init__(
        self,
        name: str,
        *,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        partitioner: str = "murmur2",
        ttl_ms: int | None = None,
        ttl_clock: TtlClock | str = TtlClock.EVENT,
    ) -> None:
        """Describe a key-value store with timestamps; its clock may be given by name.

        Raises:
            InvalidTypeError, InvalidArgumentError: The name, the time to live or its clock is not
                valid.
        """
        StoreSpecification.__init__(self, name, key=key, value=value, partitioner=partitioner)
        if ttl_ms is not None and type(ttl_ms) is not int:
            raise InvalidTypeError(
                f"ttl_ms must be an int or None, got {ttl_ms!r}{in_milliseconds(ttl_ms)}"
            )
        if ttl_ms is not None:
            check_duration("ttl_ms", ttl_ms)
        try:
            clock = TtlClock(ttl_clock)
        except ValueError as error:
            known = ", ".join(repr(known.value) for known in TtlClock)
            raise InvalidArgumentError(
                f"ttl_clock must be one of {known}, got {ttl_clock!r}"
            ) from error
        object.__setattr__(self, "ttl_ms", ttl_ms)
        object.__setattr__(self, "ttl_clock", clock)

    def describe(self) -> dict[str, str | int]:
        """Return the specification in stored form; a time to live of 0 means none."""
        described = StoreSpecification.describe(self)
        described["ttl_ms"] = self.ttl_ms or 0
        described["ttl_clock"] = self.ttl_clock.value
        return described


@dataclass(frozen=True, slots=True)
class Versioned(StoreSpecification[K, V]):
    """A versioned store: every value of each key within a history retention (VRS, KIP-889)."""

    kind: ClassVar[Kind] = kinds.VERSIONED

    history_retention_ms: int = field(kw_only=True)
    """How far behind stream time reads go, and how late a put may come; from 0."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a versioned store."""
        StoreSpecification.__post_init__(self)
        check_duration("history_retention_ms", self.history_retention_ms, least_ms=0)

    def describe(self) -> dict[str, str | int]:
        """Return the specification in stored form, the retention included."""
        described = StoreSpecification.describe(self)
        described["history_retention_ms"] = self.history_retention_ms
        return described
