"""The task of a sink: reads a topic, and commits its position with what it wrote (PRC-63)."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from statestores.errors import ProcessingError
from statestores.processing.error_policy import Action
from statestores.processing.local.consumer import Consumer
from statestores.processing.local.edge_task import EdgeTask, store_name_of
from statestores.processing.local.outputs import TopicOutputs
from statestores.processing.local.sinks.sink import Delivery, SinkWriter
from statestores.processing.local.topics import AnyTopic
from statestores.processing.runtime.failures import NOT_OF_A_RECORD, advice_on
from statestores.spi.offsets import TopicPartition
from statestores.tasks import Task
from statestores.tasks.commits.task_outputs import OutputFiles

_FILES, _LETTERS = "files", "letters"


class SinkOutputs:
    """Both outputs of a sink's commit: what its writer makes visible, and dead letters."""

    def __init__(self, writer: SinkWriter, letters: TopicOutputs) -> None:
        """Commit both as one."""
        self.writer = writer
        self.letters = letters

    @property
    def has_pending(self) -> bool:
        """Whether the next commit writes something."""
        return self.writer.has_pending or self.letters.has_pending

    def record(self) -> OutputFiles:
        """Return both, each under its name."""
        return {
            f"{part}/{name}": data
            for part, outputs in self._parts()
            if outputs.has_pending
            for name, data in outputs.record().items()
        }

    def publish(self, files: OutputFiles) -> None:
        """Make both visible."""
        for part, outputs in self._parts():
            beginning = f"{part}/"
            own = {
                name.removeprefix(beginning): data
                for name, data in files.items()
                if name.startswith(beginning)
            }
            if own:
                outputs.publish(own)

    def _parts(self) -> tuple[tuple[str, SinkWriter | TopicOutputs], ...]:
        return (_FILES, self.writer), (_LETTERS, self.letters)

    @property
    def reached(self) -> Mapping[str, int]:
        """How far dead letters were emitted; where a sink has written to, is not its topology's."""
        return self.letters.reached

    def check(self, reached: Mapping[str, int]) -> None:
        """Accept topics that have the dead letters of earlier commits."""
        self.letters.check(reached)

    def forget(self) -> None:
        """Have nothing pending."""
        self.writer.forget()
        self.letters.forget()


class SinkTask(EdgeTask):
    """Empties one topic."""

    def __init__(self, topic: AnyTopic, task: Task, outputs: SinkOutputs, action: Action) -> None:
        """Go on where the store of *task* says."""
        super().__init__(store_name_of(topic.topic.name, "sink"), task, action)
        self._outputs = outputs
        self._writer = outputs.writer
        outputs.letters.begin_after(task.position.get(outputs.letters.mark, 0))
        reflected = task.position
        self._consumers = deque(
            Consumer(place, log, task.next_offset(place) if place in reflected else None)
            for place, log in (
                (TopicPartition(topic.topic.name, number), log)
                for number, log in enumerate(topic.logs)
            )
        )
        self.committed = {reader.place: reader.next_offset for reader in self._consumers}
        self._reached: dict[TopicPartition, int] = {}
        self._wall_ms = 0
        self._topic: Any = topic

    @property
    def commit_requested(self) -> bool:
        """Whether the writer has as much as it wants."""
        return bool(self._reached) and self._writer.has_pending and self._is_due()

    def advance(self, wall_ms: int, limit: int) -> int:
        """Take up to *limit* records, or the last frame of each partition beyond it."""
        self._wall_ms = max(self._wall_ms, wall_ms)
        done = 0
        for _ in range(len(self._consumers)):
            consumer = self._consumers[0]
            self._consumers.rotate(-1)
            while done < limit and (polled := consumer.poll()):
                done += len(polled)
                for offset, raw in polled:
                    self._deliver(consumer.place, offset, raw)
        return done

    def commit(self) -> bool:
        """Commit what was taken: what it was written to, and the position."""
        if not self._reached:
            return False
        position = dict(self._reached)
        letters = self._outputs.letters
        if letters.has_pending:
            letters.number += 1
            position[letters.mark] = letters.number
        self.task.commit(position)
        self.committed |= {place: last + 1 for place, last in self._reached.items()}
        self._reached.clear()
        return True

    def commit_when_due(self) -> bool:
        """Commit if the writer finds it time."""
        return self._is_due() and self.commit()

    def close(self) -> None:
        """Close files and stores."""
        try:
            for consumer in self._consumers:
                consumer.close()
        finally:
            super().close()

    def _is_due(self) -> bool:
        return not self._writer.has_pending or self._writer.is_due(self._wall_ms)

    def _deliver(self, place: TopicPartition, offset: int, raw: Any) -> None:
        try:
            self._writer.deliver(Delivery(place.partition, offset, raw), self._wall_ms)
        except Exception as error:
            if self._action == "fail" or isinstance(error, NOT_OF_A_RECORD):
                raise ProcessingError(
                    f"{self.name!r} failed at {place.topic!r}, partition {place.partition}, offset "
                    f"{offset}: {type(error).__name__}: {error}; {advice_on(error)}"
                ) from error
            self.dropped(
                error,
                (place.topic, place.partition, offset),
                raw,
                lambda letters, record: self._outputs.letters.emit(letters, record, None),
            )
        self._reached[place] = offset
