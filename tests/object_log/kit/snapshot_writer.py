"""Does one thing to the snapshots of a store in an object store, and dies at a failpoint.

python snapshot_writer.py '{"url": ..., "options": ..., "do": ..., "failpoint": ...}'
"""

import json
import os
import signal
import sys
from typing import Any

import statestores as ss
from statestores.failpoints import arm
from statestores.reading.partition_places import ObjectPartition
from statestores.upkeep import FileSnapshot, ObjectVacuum


def work(case: dict[str, Any]) -> None:
    """Write a snapshot of partition 0 of ``counts``, or remove all but one and what is left."""
    root = ss.StateRoot.open(case["url"], storage_options=case["options"])
    log, specification = root.object_log("counts"), root.store("counts").specification
    arm(case["failpoint"], lambda: os.kill(os.getpid(), signal.SIGKILL))
    if case["do"] == "write":
        FileSnapshot(directory=ObjectPartition(log, 0), number=0, specification=specification)()
    else:
        ObjectVacuum(log=log, keep_snapshots=1, abandoned_after_ms=-60_000)()


if __name__ == "__main__":
    work(json.loads(sys.argv[1]))
