"""Who is alive, by signs of life: judged by the clock of the one that looks (SRV-3).

Each record has a beat, which is another one in each sign of life. How long a reader has seen no
other one is measured by its own monotonic clock, so clocks of machines need not agree. A record
that it meets for the first time may be that of a dead instance, until a lease has passed: then it
refuses connections, and the next instance is asked.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from statestores.errors import InvalidArgumentError
from statestores.query.metadata.instance import InstanceMetadata

DEFAULT_LEASE_MS = 5_000
"""How long an instance is believed without a sign of life."""


@dataclass(frozen=True, slots=True)
class _Seen:
    beat: int
    since: float
    record: InstanceMetadata


class SignsOfLife:
    """What was seen of each instance. One thread at a time uses it."""

    def __init__(
        self,
        *,
        lease_ms: int = DEFAULT_LEASE_MS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Believe an instance for *lease_ms* after its last sign of life.

        Raises:
            InvalidArgumentError: The lease is none.
        """
        if type(lease_ms) is not int or lease_ms < 1:
            raise InvalidArgumentError(f"lease_ms must be an int from 1, got {lease_ms!r}")
        self.lease_ms = lease_ms
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._beats: dict[str, int] = {}

    def next_beat(self, instance: str) -> int:
        """Return the beat of the next sign of life that *instance*, this one, gives.

        By the clock too, so that an instance which begins anew does not look like itself.
        """
        beat = max(self._beats.get(instance, 0) + 1, time.time_ns() // 1_000_000)
        self._beats[instance] = beat
        return beat

    def see(self, beat: int, record: InstanceMetadata) -> None:
        """Note a record; one with the same beat as before is no new sign of life."""
        before = self._seen.get(record.instance)
        is_same = before is not None and before.beat == beat
        since = before.since if before is not None and is_same else self._clock()
        self._seen[record.instance] = _Seen(beat, since, record)

    def forget(self, instance: str) -> None:
        """Note that *instance* has said that it is gone."""
        self._seen.pop(instance, None)

    def known(self) -> list[str]:
        """Return the names of the instances of which there is a record, dead ones too."""
        return list(self._seen)

    def alive(self) -> Mapping[str, InstanceMetadata]:
        """Return those that have given a sign of life within the lease."""
        now = self._clock()
        return {
            name: each.record
            for name, each in self._seen.items()
            if now - each.since < self.lease_ms / 1000
        }

    def silent(self, leases: int) -> dict[str, int]:
        """Return those without a sign of life for *leases*, each with its last beat."""
        limit = self._clock() - leases * self.lease_ms / 1000
        return {name: each.beat for name, each in self._seen.items() if each.since < limit}
