"""What a store is: its name, kind, serdes and retention, as one value that the store remembers."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, overload

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi.serde import Serde

K = TypeVar("K")
V = TypeVar("V")

MAX_NAME_LENGTH = 249
"""A store's name is part of its changelog's topic name, and this is the limit of Kafka's."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, init=False)
class StoreSpecification(Generic[K, V]):
    """What every kind has. The store writes it down and checks it at each opening (COM-13)."""

    kind: ClassVar[str]
    """The kind's name in stored form."""

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
        self, name: str, key: Serde[K] | None, value: Serde[V] | None, partitioner: str
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
        self._set(name=name, key=key, value=value, partitioner=partitioner)

    def _set_duration(self, name: str, duration_ms: object) -> None:
        """Set the field *name* to a time span of at least a millisecond."""
        if type(duration_ms) is not int:
            raise InvalidTypeError(f"{name} must be an int of milliseconds, got {duration_ms!r}")
        if not 1 <= duration_ms < 1 << 63:
            raise InvalidArgumentError(f"{name} must be from 1 to 2**63 - 1, got {duration_ms!r}")
        self._set(**{name: duration_ms})

    def describe(self) -> dict[str, str | int]:
        """Return the specification in stored form: plain JSON values, serdes by name."""
        return {
            "kind": self.kind,
            "name": self.name,
            "key": self.key.name if self.key else "bytes",
            "value": self.value.name if self.value else "bytes",
            "partitioner": self.partitioner,
        }


@dataclass(frozen=True, slots=True, init=False)
class KeyValue(StoreSpecification[K, V]):
    """A key-value store: the latest value of each key (KVS).

    Without serdes, keys and values are bytes: ``KeyValue("counts")`` is a
    ``KeyValue[bytes, bytes]``.
    """

    kind: ClassVar[str] = "key-value"

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
class Versioned(StoreSpecification[K, V]):
    """A versioned store: every value of each key within a history retention (VRS, KIP-889)."""

    kind: ClassVar[str] = "versioned"

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
