"""A partition in a directory, as standbys copy it: its changelog's files, and its snapshots."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from statestores.begun_partitions import refuse_gone
from statestores.changelog import changelog_partition
from statestores.errors import StoreNotFoundError
from statestores.opening import BytesStore
from statestores.reading.locations import changelog_of
from statestores.reading.visible_changelog import VisibleChangelog
from statestores.spi.offsets import offset_after
from statestores.spi.specification import StoreSpecification
from statestores.state_root import PartitionDirectory
from statestores.tasks.copying.changelog_gap import is_left_behind, is_unloaded, snapshot_before
from statestores.tasks.copying.source import CopySource, Missing
from statestores.tasks.copying.steady_changelog import SteadyChangelog
from statestores.tasks.lag import LagInfo, lag_behind


class DirectorySource(CopySource):
    """Copies from a directory."""

    def __init__(
        self,
        directory: PartitionDirectory,
        specification: StoreSpecification[Any, Any],
        partition: int,
    ) -> None:
        """Copy what *directory* has, *partition* of a store of *specification*."""
        self._directory = directory
        self._specification = specification
        self._logged = changelog_partition(specification.name, partition)

    def lag(self, next_offset: int) -> LagInfo:
        return lag_behind(next_offset, self._directory, self._specification)

    def is_unloaded(self, store: BytesStore) -> bool:
        return is_unloaded(store, self._directory, self._logged)

    def is_left_behind(self, store: BytesStore) -> bool:
        return is_left_behind(store, self._directory, self._logged)

    @contextmanager
    def missing(self, store: BytesStore) -> Iterator[Missing | None]:
        try:
            log = changelog_of(self._directory, self._specification)
        except StoreNotFoundError:
            refuse_gone(self._directory, offset_after(store.committed_offset(self._logged)))
            yield None
            return
        with log:
            steady = SteadyChangelog(log)
            snapshot = snapshot_before(
                store, self._directory, self._logged, steady, self._end_for_readers
            )
            yield Missing(steady, snapshot)

    def _end_for_readers(self) -> int:
        """Return where the partition ends now, with what is committed and not appended yet."""
        return VisibleChangelog(self._directory, self._specification).end().offset
