"""The commands put together, and what becomes of their errors: one sentence, and an exit code.

Whoever stops reading our output early is not told that this is an error.
"""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from statestores.cli.commands.backends import backends
from statestores.cli.commands.changelog import changelog
from statestores.cli.commands.compact import compact
from statestores.cli.commands.export import export
from statestores.cli.commands.export_spark import export_spark
from statestores.cli.commands.get import get
from statestores.cli.commands.history import history
from statestores.cli.commands.import_file import import_
from statestores.cli.commands.import_kafka import import_kafka
from statestores.cli.commands.info import info
from statestores.cli.commands.new_backend import new_backend
from statestores.cli.commands.orphans import orphans
from statestores.cli.commands.restore import restore
from statestores.cli.commands.scan import scan
from statestores.cli.commands.snapshot import snapshot
from statestores.cli.commands.topologies import describe, run
from statestores.cli.commands.verify import verify
from statestores.cli.installed_commands import add_installed_commands
from statestores.cli.sentences import FAILURE, SETTINGS, USAGE, complain, exit_code
from statestores.errors import InvalidArgumentError, InvalidOptionError, StateStoreError
from statestores.registry import load_backend

_BROKEN_PIPE = 128 + 13  # like a program that SIGPIPE has ended


class SentenceGroup(TyperGroup):
    """A group of commands whose errors are one sentence each."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002  # the signature of the library
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002  # the same
        **extra: Any,
    ) -> Any:
        """Run the command that *args* name, and end the process with its exit code."""
        main = super().main
        code = exit_code(
            lambda: main(
                args=args,
                prog_name="statestores",
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            ),
            "statestores",
        )
        sys.exit(code)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and turn what it raises into a sentence and an exit code."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (InvalidArgumentError, InvalidOptionError) as error:
            complain(f"statestores: {error}")
            raise typer.Exit(USAGE) from error
        except BrokenPipeError as error:
            _let_go_of_output()
            raise typer.Exit(_BROKEN_PIPE) from error
        except StateStoreError as error:
            complain(f"statestores: {error}")
            raise typer.Exit(FAILURE) from error
        except OSError as error:
            what = error.strerror or str(error)
            where = f" {error.filename!r}" if error.filename else ""
            complain(f"statestores: cannot read or write{where}: {what}")
            raise typer.Exit(FAILURE) from error
        return result


def _let_go_of_output() -> None:
    """Point standard output to nowhere, so that the interpreter's last flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


app = typer.Typer(
    cls=SentenceGroup,
    add_completion=False,
    invoke_without_command=True,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)


def _print_version(value: bool) -> None:  # noqa: FBT001  # the signature of a callback
    if value:
        typer.echo(f"statestores {version('statestores')}")
        raise typer.Exit


@app.callback()
def statestores(
    context: typer.Context,
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    trust_backend: Annotated[
        list[str] | None,
        typer.Option(
            "--trust-backend",
            metavar="MODULE:CLASS",
            help="Import this engine class if a store names it. Repeatable.",
        ),
    ] = None,
) -> None:
    """Look into state stores; only the commands marked below write into them.

    Reading takes no lock wherever a partition has a changelog: a store can be looked into while
    its owner writes it.
    """
    for name in trust_backend or ():
        load_backend(name)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command(short_help="List the registered backends, usable or not.")(backends)
app.command(short_help="Say what lies at a path, and how it is.")(info)
app.command(short_help="Print the value of one key.")(get)
app.command(short_help="Print keys and values in key order.")(scan)
app.command(short_help="Print the versions of one key.")(history)
app.command(short_help="Print the changes of a changelog.")(changelog)
app.command(short_help="Write a store into an Arrow or Parquet file.")(export)
app.command("export-spark", short_help="Write a store as a checkpoint of Spark's.")(export_spark)
app.command(short_help="Check everything; say in words what is wrong.")(verify)
app.command("import", short_help="WRITES: put the rows of a file into a store.")(import_)
app.command("import-kafka", short_help="WRITES: import the state of Kafka Streams.")(import_kafka)
app.command(short_help="Say what lies about and belongs to no store.")(orphans)
app.command(short_help="WRITES: bring local engines up to their changelogs.")(restore)
app.command(short_help="WRITES: copy partitions as they are.")(snapshot)
app.command(short_help="WRITES: make a package for a backend of your own.")(new_backend)
app.command(short_help="WRITES: drop void changes from changelogs.")(compact)
app.command(short_help="Print a topology: its parts, steps, stores and topics.")(describe)
app.command(short_help="WRITES: run a topology on topics in a directory.")(run)
add_installed_commands(app)
