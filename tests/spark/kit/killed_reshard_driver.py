"""A driver that reshards ``counts`` by Spark's tasks, to be killed while it does.

Run as a program: ROOT OPTIONS PARTITIONS [FAILPOINT PLACE]. At the failpoint the driver and its
Java are killed: by the driver itself, or, if PLACE is ``task``, by the first task that comes to it,
which goes on until it notices.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from driver_session import processes_of, started
from pyspark import cloudpickle

from statestores import failpoints
from statestores.resharding import reshard
from statestores.spark.given_root import GivenRoot
from statestores.spark.in_tasks import in_tasks

T = TypeVar("T")


@dataclass(frozen=True)
class Deadly(Generic[T]):
    """Work that comes to a failpoint at which something is done."""

    work: Callable[[], T]
    failpoint: str
    action: Callable[[], object]

    def __call__(self) -> T:
        """Do the work."""
        failpoints.arm(self.failpoint, self.action, at=1)
        try:
            return self.work()
        finally:
            failpoints.disarm()


def kill(processes: Iterable[int]) -> None:
    """Kill *processes*, those that live."""
    for process in processes:
        os.kill(process, signal.SIGKILL)


def main(root: str, options: str, partitions: str, failpoint: str = "", place: str = "") -> None:
    """Reshard."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # Spark's
    spark = started()
    die = partial(kill, processes_of(spark))

    def each(work: Sequence[Callable[[], T]]) -> list[T]:
        if place == "task":
            return in_tasks(spark, [Deadly(one, failpoint, die) for one in work])
        return in_tasks(spark, work)

    if failpoint and place != "task":
        failpoints.arm(failpoint, die, at=1)
    given = GivenRoot.of(root, json.loads(options))
    reshard(given.open_to_send(), "counts", int(partitions), memory_bytes=4_000, each=each)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
