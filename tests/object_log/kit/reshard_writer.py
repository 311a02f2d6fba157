"""Reshards ``counts``, or another store, in an object store, and dies at a failpoint.

python reshard_writer.py '{"url": ..., "options": ..., "partitions": ..., "failpoint": ...}'

With ``"tasks": true`` its rows pass as objects; ``"store"`` names another one,
and ``"to"`` another root in the same object store.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import statestores as ss
from statestores.failpoints import arm
from statestores.resharding import reshard

T = TypeVar("T")


def one_after_the_other(work: Sequence[Callable[[], T]]) -> Iterator[T]:
    """Do each piece of *work* as a task would."""
    return (each() for each in work)


if __name__ == "__main__":
    case = json.loads(sys.argv[1])
    root = ss.StateRoot.open(case["url"], storage_options=case["options"])
    arm(case["failpoint"], lambda: os.kill(os.getpid(), signal.SIGKILL), at=1)
    each = one_after_the_other if case.get("tasks") else None
    to, store = case.get("to"), case.get("store", "counts")
    reach = case["options"] if to else None
    reshard(root, store, case["partitions"], to=to, to_storage_options=reach, each=each)
