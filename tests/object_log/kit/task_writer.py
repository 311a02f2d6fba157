"""Puts numbers into both stores of a task whose changelogs are in an object store, until it dies.

    python task_writer.py '{"url": ..., "options": ..., "directory": ..., "failpoint": ..., ...}'

It dies the `at`-th time that it comes to the failpoint, which with `opening` is armed before the
task is opened. Prints each number whose commit has returned.
"""

import json
import os
import signal
import sys
from typing import Any

import statestores as ss
from statestores import failpoints
from statestores.tasks import open_task

INPUT = ss.TopicPartition("words", 0)
NAMES = ("counts", "rates")


def die() -> None:
    """Be killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def write(case: dict[str, Any]) -> None:
    """Open the task, and commit numbers."""
    if case.get("opening"):
        failpoints.arm(case["failpoint"], die, at=case["at"])
    root = ss.StateRoot.open(case["url"], storage_options=case["options"])
    with open_task(root, "0_0", NAMES, local_directory=case["directory"], backend="sqlite") as task:
        failpoints.arm(case["failpoint"], die, at=case["at"])
        for number in range(task.next_offset(INPUT), 1_000_000):
            for name in NAMES:
                task.logged_store(name).store.put(b"number", b"%d" % number)
            task.commit({INPUT: number})
            print(number, flush=True)  # noqa: T201  # whoever started this reads every line


if __name__ == "__main__":
    write(json.loads(sys.argv[1]))
