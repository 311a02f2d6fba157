"""The command line: `statestores`, for looking into stores and a few commands that write.

Read `application` first, then `store_views` and one of `commands`, a module for each. The page for
users is ``docs/cli.md``.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

from statestores.errors import MissingDriverError

_PACKAGES = frozenset({"typer", "rich"})
"""What the command line needs on top of the library; most commands need Arrow as well."""

_INTERRUPTED = 130
"""The exit code after Control-C."""


def main() -> None:
    """Run the command line; the console script `statestores`."""
    _hold_standard_files()
    if sys.stdout is None:  # closed before the start: `statestores ... >&-`
        sys.exit("statestores: standard output is closed, and there is nowhere to print to")
    try:
        import_module("statestores.cli.application").app(prog_name="statestores")
    except KeyboardInterrupt:  # before the command begins: loading takes a second
        sys.exit(_INTERRUPTED)
    except (ModuleNotFoundError, MissingDriverError) as error:  # a command is loaded when called
        name = error.name
        if name is None or name.partition(".")[0] not in _PACKAGES:
            raise
        sys.exit(
            f"statestores: the command line needs the package {name!r}, which is not "
            "installed; try: pip install 'statestores[cli]'"
        )


def _hold_standard_files() -> None:
    """Have standard input and error lead nowhere where they were closed: `statestores ... 2>&-`.

    The next file that is opened, such as one of an engine, would get the number, and libraries
    print there. Remarks would be printed on standard output, among what it is read for.
    """
    for number in (0, 2):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # to the end


__all__ = ["main"]
