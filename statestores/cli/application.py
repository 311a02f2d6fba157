"""The commands put together, and what becomes of their errors: one sentence, and an exit code.

Whoever stops reading our output early is not told that this is an error.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import version
from threading import current_thread, main_thread
from typing import Annotated, Any, Final, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup

from statestores.cli.installed_commands import (
    add_command_without_package,
    add_installed_commands,
)
from statestores.cli.sentences import FAILURE, SETTINGS, USAGE, complain, exit_code
from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    MissingDriverError,
    StateStoreError,
)
from statestores.registry import load_backend
from statestores.text.advice import of_commands

_KILLED = 128  # and the number of the signal, as shells say it
_BROKEN_PIPE = _KILLED + 13  # like a program that SIGPIPE has ended


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
        with _cleaning_up_at_signals() as told:
            try:
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
            except OSError as error:  # of --help and --version, which no command prints
                _say(error)
                code = FAILURE
        sys.exit(_KILLED + told[0] if told else code)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that *args* begin with, and import it: the others are only listed."""
        self.import_command(args[0])
        return super().resolve_command(ctx, args)

    def import_command(self, name: str) -> None:
        """Have the command *name*, if there is one, be there with its options."""
        if command := _BY_NAME.get(name):
            self.commands[name] = _imported(command)

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
            complain(f"statestores: {of_commands(str(error))}")
            raise typer.Exit(FAILURE) from error
        except OSError as error:
            _say(error)
            raise typer.Exit(FAILURE) from error
        return result


def _say(error: OSError) -> None:
    what = error.strerror or str(error)
    where = f" {error.filename!r}" if error.filename else ""
    complain(f"statestores: cannot read or write{where}: {what}")


def _let_go_of_output() -> None:
    """Point standard output to nowhere, so that the interpreter's last flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


app = typer.Typer(
    cls=SentenceGroup,
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
    elif not trust_backend and context.invoked_subcommand in _BY_NAME.keys() - _RUN_OTHERS_CODE:
        _do_without_pandas()


_ARROW = "pip install 'statestores[cli,arrow]'"


class Command(NamedTuple):
    """One command: where it is, and what the list of commands says of it."""

    name: str
    place: str
    """Module and function, in `statestores.cli`."""
    short_help: str


COMMANDS: Final = (
    Command(
        "backends", "commands.backends:backends", "List the registered backends, usable or not."
    ),
    Command("info", "commands.info:info", "Say what lies at a path, and how it is."),
    Command("get", "commands.get:get", "Print the value of one key."),
    Command("scan", "commands.scan:scan", "Print keys and values in key order."),
    Command("history", "commands.history:history", "Print the versions of one key."),
    Command("changelog", "commands.changelog:changelog", "Print the changes of a changelog."),
    Command("export", "commands.export:export", "Write a store into an Arrow or Parquet file."),
    Command(
        "export-spark",
        "commands.export_spark:export_spark",
        "Write a store as a checkpoint of Spark's.",
    ),
    Command("verify", "commands.verify:verify", "Check everything; say in words what is wrong."),
    Command(
        "doctor", "operating.doctor:doctor", "Say what is wrong, what it means, and what mends it."
    ),
    Command("lag", "operating.lag:lag", "Say how far engines are behind their changelogs."),
    Command("top", "operating.top:top", "Show the partitions of a state root live."),
    Command("diff", "operating.diff:diff", "Print what two stores or snapshots do not share."),
    Command("du", "operating.du:du", "Say where the bytes of a state root are."),
    Command(
        "import", "importing.rows_file:import_", "WRITES: put the rows of a file into a store."
    ),
    Command(
        "import-kafka",
        "importing.kafka:import_kafka",
        "WRITES: import the state of Kafka Streams.",
    ),
    Command(
        "import-quix", "importing.peers:import_quix", "WRITES: import the state of Quix Streams."
    ),
    Command("import-faust", "importing.peers:import_faust", "WRITES: import the tables of Faust."),
    Command(
        "import-bytewax",
        "importing.peers:import_bytewax",
        "WRITES: import the state of a Bytewax dataflow.",
    ),
    Command(
        "import-database",
        "importing.database:import_database",
        "WRITES: import a database of RocksDB, LevelDB or SQLite.",
    ),
    Command(
        "serve", "commands.serve:serve", "Serve the stores of a state root over HTTP, with a page."
    ),
    Command("orphans", "commands.orphans:orphans", "Say what lies about and belongs to no store."),
    Command(
        "restore", "commands.restore:restore", "WRITES: bring local engines up to their changelogs."
    ),
    Command("snapshot", "commands.snapshot:snapshot", "WRITES: copy partitions as they are."),
    Command(
        "new-backend",
        "commands.new_backend:new_backend",
        "WRITES: make a package for a backend of your own.",
    ),
    Command(
        "reshard", "commands.reshard:reshard", "WRITES: give a store another number of partitions."
    ),
    Command("compact", "commands.compact:compact", "WRITES: drop void changes from changelogs."),
    Command(
        "describe",
        "commands.describe:describe",
        "Print a topology: its parts, steps, stores and topics.",
    ),
    Command("run", "commands.run:run", "WRITES: run a topology on topics in a directory."),
    Command(
        "reset", "commands.reset:reset", "WRITES: remove what a topology has left, to begin anew."
    ),
)

_RUN_OTHERS_CODE = frozenset({"describe", "reset", "run", "serve"})
"""Commands that import a topology, or go on until they are told."""

_ARROW_PACKAGES = frozenset({"pyarrow", "numpy", "google_crc32c"})


@cache
def _imported(command: Command) -> Any:
    """Return *command*; without Arrow, which most need, one that says what to install."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    module, _, function = command.place.partition(":")
    try:
        found: Callable[..., object] = getattr(import_module(f"statestores.cli.{module}"), function)
    except (ModuleNotFoundError, MissingDriverError) as error:
        package = (error.name or "").partition(".")[0]
        if package not in _ARROW_PACKAGES:
            raise
        add_command_without_package(alone, command.name, command.short_help, package, _ARROW)
    else:
        alone.command(command.name, short_help=command.short_help)(found)
    return typer.main.get_command(alone)


def _add(command: Command) -> None:
    """Add what the list of commands says of *command*, which is imported when it is called."""

    def stand_in() -> None:
        raise AssertionError(f"the command {command.name!r} was called before it was imported")

    app.command(command.name, short_help=command.short_help)(stand_in)


def _do_without_pandas() -> None:
    """Save most of the time that the command takes: Arrow would import pandas, and need none."""
    if sys.modules.get("pyarrow"):  # the command has been imported, with all that it needs
        import_module("statestores.arrow.pandas_later").import_pandas_later()


_BY_NAME = {each.name: each for each in COMMANDS}

for _each in COMMANDS:
    _add(_each)
add_installed_commands(app)


@contextmanager
def _cleaning_up_at_signals() -> Iterator[list[int]]:
    """Have SIGTERM end the command as Control-C does, with what it does at the end.

    By default it kills, as ``kill -9`` would: copies of a store in the middle of a reshard, and
    files of rows that were spilled, would stay. Commands that go on until they are told have
    handlers of their own.

    Yields:
        Which signals have come. While an object is being removed Python passes over what a handler
        raises, and the command goes on to its end: then its exit code says that it was told.
    """
    told: list[int] = []
    if current_thread() is not main_thread():
        yield told
        return

    def end(number: int, _: object) -> NoReturn:
        told.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(_KILLED + number)

    def pass_over(unraisable: "sys.UnraisableHookArgs") -> None:
        if not (told and issubclass(unraisable.exc_type, (KeyboardInterrupt, SystemExit))):
            hook(unraisable)

    hook, sys.unraisablehook = sys.unraisablehook, pass_over
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        for each, handler in before.items():
            if handler is not signal.SIG_IGN:  # as that of Control-C is behind `nohup` and `&`
                signal.signal(each, end)
        yield told
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        sys.unraisablehook = hook
