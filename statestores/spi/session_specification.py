"""What a session store is: for how long each session is kept."""

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, overload

from statestores.spi import kinds
from statestores.spi.kinds import Kind
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, init=False)
class Session(StoreSpecification[K, V]):
    """A session store: a value for each key, session start and end, within a retention (SES)."""

    kind: ClassVar[Kind] = kinds.SESSION

    retention_ms: int
    """A session is gone once stream time is this far after its end; from 1."""

    @overload
    def __init__(
        self: "Session[bytes, bytes]", name: str, *, retention_ms: int, partitioner: str = ...
    ) -> None: ...
    @overload
    def __init__(
        self: "Session[K, bytes]",
        name: str,
        *,
        retention_ms: int,
        key: Serde[K],
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "Session[bytes, V]",
        name: str,
        *,
        retention_ms: int,
        value: Serde[V],
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        retention_ms: int,
        key: Serde[K],
        value: Serde[V],
        partitioner: str = ...,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        *,
        retention_ms: int,
        key: Any = None,
        value: Any = None,
        partitioner: str = "murmur2",
    ) -> None:
        """Describe a session store.

        Raises:
            InvalidTypeError, InvalidArgumentError: The name or the retention cannot be one
                (SES-1).
        """
        self._set_common(name, key, value, partitioner)
        self._set_duration("retention_ms", retention_ms)

    def describe(self) -> dict[str, str | int]:
        """Return the specification in stored form, the retention included."""
        described = StoreSpecification.describe(self)
        described["retention_ms"] = self.retention_ms
        return described
