"""What becomes of an invalid call: a sentence on standard error, and an exit code.

The exit code is 0 for success, 1 for a failure or for nothing found, and 2 for an invalid call.
Nothing but typer is imported here, so that a command of another package can be run by it.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer

FAILURE = 1
USAGE = 2

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""How every command shows its help."""

# Some releases of Typer carry a click of their own; others import click's.
UsageError: Any = typer.BadParameter.__mro__[1]


def run_command(
    command: Callable[..., object],
    arguments: Sequence[str] | None,
    program: str,
    *,
    epilog: str | None = None,
) -> int:
    """Run *command*, a function as typer takes it, with *arguments*; return the exit code.

    That is what *command* returns, if it is a number, and otherwise 0. *program* is what its help
    calls it. Without *arguments*, they are those of the process.
    """
    app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=SETTINGS)
    app.command(epilog=epilog)(command)
    call = None if arguments is None else list(arguments)
    main = typer.main.get_command(app).main
    return exit_code(lambda: main(call, prog_name=program, standalone_mode=False), program)


def exit_code(call: Callable[[], object], program: str) -> int:
    """Return the exit code of *call*; if it is invalid, a sentence says why."""
    try:
        code = call()
    except UsageError as error:
        context = getattr(error, "ctx", None)
        command = program if context is None else context.command_path
        message = error.format_message().rstrip(".")
        complain(f"{command}: {message}; see: {command} --help")
        return USAGE
    return code if isinstance(code, int) else 0


def complain(sentence: str) -> None:
    """Print *sentence* on standard error, in one line."""
    sys.stderr.write(" ".join(sentence.split()) + "\n")
