"""A store of every kind, what a test puts into them, and the process that has them."""

from dataclasses import dataclass

import statestores as ss
from statestores.partitioning import murmur2_partitioner
from statestores.serving import Served
from statestores.tasks import TaskId, TaskManager

PARTITIONS = 2
COUNTS = ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
SEEN = ss.TimestampedKeyValue("seen", key=ss.utf8, value=ss.json)
RATES = ss.Versioned("rates", history_retention_ms=ss.DAY, key=ss.utf8, value=ss.float64)
MINUTES = ss.Window(
    "minutes", retention_ms=ss.DAY, window_size_ms=60_000, key=ss.utf8, value=ss.int64
)
VISITS = ss.Session("visits", retention_ms=ss.DAY, key=ss.utf8, value=ss.int64)
STORES = (COUNTS, MINUTES, RATES, SEEN, VISITS)
WORDS = [f"w{number:02d}" for number in range(20)]
INPUT = ss.TopicPartition("words", 0)


@dataclass(slots=True)
class Shop:
    """A running application in this process."""

    root: ss.StateRoot
    manager: TaskManager
    served: Served

    def put(self, word: str, count: int, offset: int) -> None:
        """Count a word, and commit."""
        task = self.manager.task(TaskId(0, home(word)))
        task.store("counts").put(word, count)
        task.commit({INPUT: offset})


def home(word: str) -> int:
    """Return the partition of a word."""
    return murmur2_partitioner.partition(word.encode(), PARTITIONS)


def fill(manager: TaskManager) -> None:
    """Count, see, rate and window twenty words, and commit."""
    for number, word in enumerate(WORDS):
        task = manager.task(TaskId(0, home(word)))
        task.store("counts").put(word, number)
        task.store("seen").put(word, {"by": [number, None]}, timestamp_ms=1_000 + number)
        for version in range(3):
            task.store("rates").put(word, number + version / 4, timestamp_ms=1_000 * version)
        task.store("minutes").put(word, number, window_start_ms=60_000)
        task.store("minutes").put(word, number + 1, window_start_ms=120_000)
        task.store("visits").put(word, 100, 200 + number, number)
    for task in manager.tasks.values():
        task.commit({INPUT: 20})
