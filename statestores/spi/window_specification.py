"""What a window store is: how long its windows are, and for how long each is kept."""

from dataclasses import dataclass, field
from typing import ClassVar

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi import kinds
from statestores.spi.kinds import Kind
from statestores.spi.specification import K, StoreSpecification, V, check_duration


@dataclass(frozen=True, slots=True)
class Window(StoreSpecification[K, V]):
    """A window store: a value for each key and window start, within a retention (WIN)."""

    kind: ClassVar[Kind] = kinds.WINDOW

    retention_ms: int = field(kw_only=True)
    """A window is gone once stream time is this far after its start; at least its size."""

    window_size_ms: int = field(kw_only=True)
    """How long each window is: what a record's end is made of, and nothing else; from 1."""

    retain_duplicates: bool = field(default=False, kw_only=True)
    """Whether each put adds a value to its window, in order, instead of replacing the one there."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a window store (WIN-1)."""
        StoreSpecification.__post_init__(self)
        check_duration("window_size_ms", self.window_size_ms)
        check_duration("retention_ms", self.retention_ms)
        if self.retention_ms < self.window_size_ms:
            raise InvalidArgumentError(
                f"retention_ms must be at least window_size_ms, got {self.retention_ms} and "
                f"{self.window_size_ms}: windows would be gone before they are over"
            )
        if type(self.retain_duplicates) is not bool:
            raise InvalidTypeError(
                f"retain_duplicates must be a bool, got {self.retain_duplicates!r}"
            )

    def describe(self) -> dict[str, str | int]:
        """Return the specification in stored form, with what the kind adds."""
        described = StoreSpecification.describe(self)
        described["retention_ms"] = self.retention_ms
        described["window_size_ms"] = self.window_size_ms
        described["retain_duplicates"] = self.retain_duplicates
        return described
