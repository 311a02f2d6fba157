"""What a window store is: how long its windows are, and for how long each is kept."""

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, overload

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi import kinds
from statestores.spi.kinds import Kind
from statestores.spi.serde import Serde
from statestores.spi.specification import StoreSpecification

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, init=False)
class Window(StoreSpecification[K, V]):
    """A window store: a value for each key and window start, within a retention (WIN)."""

    kind: ClassVar[Kind] = kinds.WINDOW

    retention_ms: int
    """A window is gone once stream time is this far after its start; at least its size."""

    window_size_ms: int
    """How long each window is: what a record's end is made of, and nothing else; from 1."""

    retain_duplicates: bool
    """Whether each put adds a value to its window, in order, instead of replacing the one there."""

    @overload
    def __init__(
        self: "Window[bytes, bytes]",
        name: str,
        *,
        retention_ms: int,
        window_size_ms: int,
        retain_duplicates: bool = ...,
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "Window[K, bytes]",
        name: str,
        *,
        retention_ms: int,
        window_size_ms: int,
        retain_duplicates: bool = ...,
        key: Serde[K],
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: "Window[bytes, V]",
        name: str,
        *,
        retention_ms: int,
        window_size_ms: int,
        retain_duplicates: bool = ...,
        value: Serde[V],
        partitioner: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        retention_ms: int,
        window_size_ms: int,
        retain_duplicates: bool = ...,
        key: Serde[K],
        value: Serde[V],
        partitioner: str = ...,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        *,
        retention_ms: int,
        window_size_ms: int,
        retain_duplicates: bool = False,
        key: Any = None,
        value: Any = None,
        partitioner: str = "murmur2",
    ) -> None:
        """Describe a window store.

        Raises:
            InvalidTypeError, InvalidArgumentError: The name, the size or the retention cannot be
                one, or windows would be gone before they are over (WIN-1).
        """
        self._set_common(name, key, value, partitioner)
        self._set_duration("window_size_ms", window_size_ms)
        self._set_duration("retention_ms", retention_ms)
        if retention_ms < window_size_ms:
            raise InvalidArgumentError(
                f"retention_ms must be at least window_size_ms, got {retention_ms} and "
                f"{window_size_ms}: windows would be gone before they are over"
            )
        if type(retain_duplicates) is not bool:
            raise InvalidTypeError(f"retain_duplicates must be a bool, got {retain_duplicates!r}")
        self._set(retain_duplicates=retain_duplicates)

    def describe(self) -> dict[str, str | int]:
        """Return the specification in stored form, with what is the kind's own."""
        described = StoreSpecification.describe(self)
        described["retention_ms"] = self.retention_ms
        described["window_size_ms"] = self.window_size_ms
        described["retain_duplicates"] = self.retain_duplicates
        return described
