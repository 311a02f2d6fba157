"""What may be chosen when a store is opened."""

from dataclasses import dataclass

from statestores.errors import InvalidOptionError
from statestores.spi import Durability


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisOptions:
    """The server, and what a commit is to survive."""

    url: str = "redis://localhost:6379/0"
    """The server, as redis-py takes it: ``redis://``, ``rediss://`` or ``unix://``."""

    durability: Durability = Durability.POWER_LOSS
    """What a commit survives that names no durability of its own (COM-25)."""

    timeout_ms: int = 30_000
    """How long to wait for an answer, from 1. A commit that waited in vain is asked after."""

    def __post_init__(self) -> None:
        """Refuse what redis-py would take, and fail with later."""
        if self.timeout_ms < 1:
            raise InvalidOptionError(f"timeout_ms must be at least 1, got {self.timeout_ms}")
        if not self.url.startswith(("redis://", "rediss://", "unix://")):
            raise InvalidOptionError(
                f"url must begin with redis://, rediss:// or unix://, got {self.url!r}"
            )
