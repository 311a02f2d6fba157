"""What a session store is: for how long each session is kept."""

from dataclasses import dataclass, field
from typing import ClassVar

from statestores.spi import kinds
from statestores.spi.kinds import Kind
from statestores.spi.specification import K, StoreSpecification, V, check_duration


@dataclass(frozen=True, slots=True)
class Session(StoreSpecification[K, V]):
    """A session store: a value for each key, session start and end, within a retention (SES)."""

    kind: ClassVar[Kind] = kinds.SESSION

    retention_ms: int = field(kw_only=True)
    """A session is gone once stream time is this far after its end; from 1."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a session store (SES-1)."""
        StoreSpecification.__post_init__(self)
        check_duration("retention_ms", self.retention_ms)

    def describe(self) -> dict[str, str | int]:
        """Return the specification in stored form, the retention included."""
        described = StoreSpecification.describe(self)
        described["retention_ms"] = self.retention_ms
        return described
