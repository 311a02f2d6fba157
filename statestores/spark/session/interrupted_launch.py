"""What a start of Spark that is interrupted leaves behind: a JVM that nothing ends.

A JVM of Spark's ends when its standard input does, that is with the process that has started it. It
begins to read there once it has written down where it is found. PySpark's wait for that, when it is
interrupted, removes the directory for it: the JVM fails to write, its main thread ends, and those
that listen for Python keep the rest alive, for ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen, TimeoutExpired
from traceback import walk_tb

_PATIENCE_S = 10.0
"""For a JVM to end in order, which removes its temporary files."""


@contextmanager
def ending_an_interrupted_launch() -> Iterator[None]:
    """End the process that is being started within, if an interrupt or the end of this one comes.

    It is found where it was started, in the frames that are being left: nobody else knows it yet.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        frames = [frame for frame, _ in walk_tb(error.__traceback__)]
        local = [value for frame in frames for value in frame.f_locals.values()]
        for process in {id(each): each for each in local if isinstance(each, Popen)}.values():
            _end(process)
        raise


def _end(process: "Popen[bytes]") -> None:
    """End *process*, and wait until it has; one that has ended already is no error."""
    process.terminate()
    try:
        process.wait(_PATIENCE_S)
    except TimeoutExpired:
        process.kill()
        process.wait()
