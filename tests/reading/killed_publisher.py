"""A process that publishes a staged write and kills itself at a named step.

Run as a program: ROOT STORE WRITE_ID MODE STEP, the staged rows pickled on standard input.
"""

import os
import pickle
import signal
import sys
from typing import Any

from statestores.changelog.frame import FrameKind
from statestores.staging import committed_write, staged_write
from statestores.state_root import StateRoot


def die(*arguments: Any, **named: Any) -> None:
    """End this process as a crash does."""
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str, *, call: int = 1, of_rows: bool = False) -> None:
    """Die at the *call*-th call of a function, before it; of those *of_rows*, or of all."""
    original = getattr(owner, name)
    left = [call]

    def dying(*arguments: Any, **named: Any) -> Any:
        left[0] -= not of_rows or arguments[1].kind is FrameKind.CHANGES
        if left[0] == 0:
            die()
        return original(*arguments, **named)

    setattr(owner, name, dying)


def main(root: str, store: str, write_id: str, mode: Any, step: str) -> None:
    """Publish, and die at *step*."""
    staged = pickle.load(sys.stdin.buffer)  # noqa: S301  # from the test that started this
    if step == "before the intent":
        before(staged_write, "store_intent")
    elif step == "after the intent":
        before(committed_write, "_roll_forward")
    elif step == "before an append":
        before(committed_write, "append_frame", call=2, of_rows=True)
    elif step == "after an append":
        before(committed_write, "append_frame", call=3, of_rows=True)
    elif step == "before the end":
        before(committed_write, "_close")
    elif step == "after the end":
        before(committed_write, "remove_write")
    staged_write.publish(StateRoot.open(root), store, write_id, staged, mode)
    if step == "after all":
        die()
    raise AssertionError(f"the step {step!r} did not come")


if __name__ == "__main__":
    main(*sys.argv[1:])
