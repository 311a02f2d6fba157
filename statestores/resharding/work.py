"""What is to be resharded, and how its partitions are written anew; nothing counts yet."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from statestores.arrow.progress import Meter
from statestores.errors import StoreMismatchError
from statestores.failpoints import reach
from statestores.object_log import ObjectLog
from statestores.resharding.building import Build, Built
from statestores.resharding.exchange import DirectoryExchange, Exchange
from statestores.resharding.fence import Fenced
from statestores.resharding.routing import Route, Routed
from statestores.root_document import StoreEntry
from statestores.spi.offsets import Position, TopicPartition
from statestores.spi.specification import TtlClock
from statestores.state_root import StateRoot

T = TypeVar("T")


class Each(Protocol):
    """How independent pieces of work are done: here one after the other, or elsewhere."""

    def __call__(self, work: Sequence[Callable[[], T]]) -> Iterable[T]:
        """Yield what each piece of *work* gives, in its order. Each can be sent elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshardReport:
    """What `reshard` has done."""

    store: str
    """The store."""

    before: int
    """How many partitions it had."""

    partitions: int
    """How many it has."""

    rows: tuple[int, ...]
    """The rows of each new partition; none where there was nothing to do."""

    bytes: int
    """Bytes of the new snapshots."""

    expired: int
    """Rows that the old partitions had, and that the stream time of the furthest has ended."""

    offset: int | None
    """Where the new snapshots stand; ``None`` where there was nothing to do."""

    position: Position
    """The input that every new partition reflects."""

    behind: tuple[TopicPartition, ...]
    """Inputs of which some old partition had more: resuming there applies that once more."""


@dataclass(frozen=True, slots=True)
class Work:
    """One reshard."""

    source: StateRoot
    """The state root."""

    entry: StoreEntry
    """What the root says of the store."""

    partitions: int
    """How many partitions it is to have."""

    memory_bytes: int
    """About as much memory as rows take while they are sorted."""

    meter: Meter
    """Told how far it has come."""

    each: Each
    """How the work of single partitions is done."""

    is_sent: bool = False
    """Whether that is elsewhere, where nobody sees the files of this machine."""

    @property
    def store(self) -> str:
        """The store's name."""
        return self.entry.specification.name

    def build(
        self,
        fenced: Fenced,
        scratch: Path,
        *,
        drop_expired: bool,
        objects: ObjectLog | None = None,
        log_id: str = "",
        exchange: Exchange | None = None,
    ) -> tuple[ReshardReport, list[Built]]:
        """Make the new partitions in the directory *scratch*, or as snapshots of the log *objects*.

        That log need not be there yet; *log_id* is the id that it will have. Rows are passed on
        through *exchange*, or else through files in *scratch*.

        Raises:
            StoreMismatchError: Rows would expire, and *drop_expired* does not allow it.
            StateStoreError: Something cannot be read or written.
        """
        exchange = exchange or DirectoryExchange(scratch)
        routes = [
            Route(
                place=place,
                number=number,
                specification=self.entry.specification,
                partitions=self.partitions,
                sources=len(fenced.places),
                exchange=exchange,
                memory_bytes=self.memory_bytes,
            )
            for number, place in enumerate(fenced.places)
        ]
        routed: list[Routed] = []
        for split in self.each(routes):
            routed.append(split)
            self.meter.add(split.rows, split.bytes)
        reach("reshard.routed")
        times = [each.stream_time_ms for each in routed if each.stream_time_ms is not None]
        builds = [
            Build(
                scratch=scratch,
                number=number,
                specification=self.entry.specification,
                sources=tuple(routed),
                exchange=exchange,
                memory_bytes=self.memory_bytes,
                offset=fenced.offset,
                position=fenced.position,
                stream_time_ms=max(times, default=None),
                objects=objects,
                log_id=log_id,
            )
            for number in range(self.partitions)
        ]
        built: list[Built] = []
        for made in self.each(builds):
            built.append(made)
            self.meter.add(made.rows, made.bytes)
        # By the wall clock a row expires whether it is moved or not.
        specification = self.entry.specification
        by_wall_clock = getattr(specification, "ttl_clock", None) is TtlClock.WALL
        expired = 0 if by_wall_clock else sum(each.expired for each in built)
        if expired and not drop_expired:
            raise StoreMismatchError(
                f"{expired:,} rows of {self.store!r} live in a partition whose stream time is "
                f"behind, and would have expired by the one of the furthest, {max(times)}: "
                "process the input of those that are behind, or reshard with drop_expired=True "
                "(--drop-expired), which leaves these rows out"
            )
        report = ReshardReport(
            store=self.store,
            before=self.entry.partitions,
            partitions=self.partitions,
            rows=tuple(each.rows for each in built),
            bytes=sum(each.bytes for each in built),
            expired=expired,
            offset=fenced.offset,
            position=fenced.position,
            behind=fenced.behind,
        )
        return report, built
