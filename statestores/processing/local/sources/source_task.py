"""The task of a source: reads files or items, and appends them to the topic (PRC-59)."""

from zlib import crc32

from statestores.errors import ProcessingError
from statestores.processing.error_policy import Action
from statestores.processing.local.edge_task import EdgeTask, empty_letter, store_name_of
from statestores.processing.local.outputs import TopicOutputs
from statestores.processing.local.sources.source import LocalSource, Place
from statestores.processing.local.topics import AnyTopic
from statestores.processing.record import RawRecord
from statestores.processing.runtime.failures import (
    A_RECORDS_FAULT,
    NO_RECORDS_FAULT,
    NOT_OF_A_RECORD,
)
from statestores.tasks import Task


class SourceTask(EdgeTask):
    """Fills one topic. It is the `SourceOutput` of its reader."""

    def __init__(
        self,
        source: LocalSource,
        topic: AnyTopic,
        task: Task,
        outputs: TopicOutputs,
        action: Action,
        *,
        wall_ms: int,
    ) -> None:
        """Go on where the store of *task* says."""
        name = store_name_of(topic.topic.name, "source")
        super().__init__(name, task, action)
        self._topic = topic
        self._outputs = outputs
        self._by_key = source.is_partitioned_by_key
        self._wall_ms = wall_ms
        self._homes: dict[str, int] = {}
        outputs.begin_after(task.position.get(outputs.mark, 0))
        self._reader = source.reader(topic.topic, task.store(name), self)

    @property
    def wall_ms(self) -> int:
        """The wall clock, as the runner moves it."""
        return self._wall_ms

    @property
    def is_feeding(self) -> bool:
        """Whether more will be in the topic: it has more to read, or to commit."""
        return self._reader.has_more or self._outputs.has_pending

    @property
    def has_waiting(self) -> bool:
        """Whether there is more to read."""
        return self._reader.has_more

    def advance(self, wall_ms: int, limit: int) -> int:
        """Read up to *limit* records."""
        self._wall_ms = max(self._wall_ms, wall_ms)
        done = self._reader.read(limit)
        self.uncommitted += done
        return done

    def commit(self) -> bool:
        """Commit what was read: the records, and how far it has come."""
        self._reader.save()
        logged = self.task.logged_store(self.name)
        if not (self._outputs.has_pending or logged.store.has_pending_writes):
            return False
        outputs = self._outputs
        if outputs.has_pending:
            outputs.number += 1
        self.task.commit({outputs.mark: outputs.number} if outputs.has_pending else None)
        self.uncommitted = 0
        return True

    def close(self) -> None:
        """Close files and stores."""
        try:
            self._reader.close()
        finally:
            super().close()

    # What the reader does.

    def take(self, record: RawRecord, place: Place) -> None:
        """Append *record*, with the next commit."""
        partition = None if self._by_key and record.key is not None else self._home(place)
        self._outputs.emit(self._topic.topic.name, record, partition)

    def refuse(self, error: Exception, place: Place, data: bytes | None = None) -> None:
        """Stop, or drop what was read, as the policy says."""
        if isinstance(error, NOT_OF_A_RECORD):
            raise self._failure(error, place, NO_RECORDS_FAULT) from error
        self._refuse(error, place, data)

    def refuse_file(self, error: Exception, place: Place) -> None:
        """Stop, or leave the file alone, as the policy says."""
        self._refuse(error, place, None)

    def _failure(self, error: Exception, place: Place, advice: str) -> ProcessingError:
        return ProcessingError(
            f"{self.name!r} failed at {place}, of the topic {self._topic.topic.name!r}, partition "
            f"{self._home(place)}: {type(error).__name__}: {error}; {advice}"
        )

    def _refuse(self, error: Exception, place: Place, data: bytes | None) -> None:
        topic, partition = self._topic.topic.name, self._home(place)
        if self._action == "fail":
            raise self._failure(error, place, A_RECORDS_FAULT) from error
        self.dropped(
            error,
            (topic, partition, place.number),
            empty_letter(data, self._wall_ms),
            lambda letters, record: self._outputs.emit(letters, record, None),
            (("file", place.source),),
        )

    def _home(self, place: Place) -> int:
        """Return the partition of what has no key: that of its file, or of items each in turn."""
        count = self._topic.partitions
        if count == 1:
            return 0
        if not place.name:
            return place.number % count
        home = self._homes.get(place.name)
        if home is None:
            home = self._homes[place.name] = crc32(place.name.encode()) % count
        return home
