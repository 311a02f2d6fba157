"""Have a process die at a failpoint, for programs that need nothing else of the suite.

`statestores_conformance` has the same, and takes half a second to import.
"""

import os
import signal

from statestores.failpoints import arm


def die_at(failpoint: str, at: int) -> None:
    """Have this process killed when it reaches *failpoint* for the *at*-th time."""
    arm(failpoint, lambda: os.kill(os.getpid(), signal.SIGKILL), at=at)
