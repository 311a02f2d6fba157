"""What a task counts of what it emits, whatever becomes of its commits."""

from typing import Any

import pyarrow as pa

from statestores.processing.runtime.emission import Emission
from statestores.processing.runtime.task_metrics import TaskCounts


class _Log:
    """Keeps what is emitted until a commit."""

    def __init__(self) -> None:
        self.box: list[Any] = []
        self.batches = 0

    def emit(self, topic: str, record: Any, partition: int | None) -> None:
        self.box.append(record)

    def outbox(self, topic: str) -> list[Any]:
        return self.box

    def emit_rows(self, topic: str, rows: pa.RecordBatch) -> None:
        self.box.clear()
        self.batches += 1


def test_what_waits_for_a_commit_is_counted_once() -> None:
    """A commit that failed and was made again counted all of it again."""
    log, counts = _Log(), TaskCounts()
    emission = Emission(log, counts)
    emit = emission.emitter("out")
    rows = pa.record_batch({"value": [1, 2, 3]})
    counted = []
    for commits, more in ((False, 2), (False, 1), (True, 0), (False, 1)):
        for number in range(more):
            emit((None, b"%d" % number, number, ()))
        emission.count_waiting()
        if commits:
            log.box.clear()
            emission.committed()
        counted.append(counts.emitted)
    emit((None, b"0", 0, ()))
    emission.emit_rows("out", rows)
    emit((None, b"0", 0, ()))
    emission.count_waiting()

    assert counted == [2, 3, 3, 4]
    assert counts.emitted == 4 + 1 + 3 + 1
