"""Commands that the command line does not import: those of other packages, and those of Spark.

An entry ``name = "module:function"`` is a function from a list of arguments to an exit code. It is
imported when it is called, so that a missing package hurts only those who want it. Other
packages add theirs through the entry-point group ``statestores.commands``, and parse the arguments
as they like; `statestores.cli.sentences.run_command` does it as the commands here do. The
conformance suite comes in this way: the library must not import what proves it.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points

import typer

from statestores.errors import MissingDriverError

GROUP = "statestores.commands"
"""The entry-point group."""

_OWN = (EntryPoint("import-spark", "statestores.spark.state.command:main", GROUP),)
"""Those of this package: a command line without Spark must not look for it."""

_SHORT_HELP = {
    "conformance": "Prove that a backend keeps the contract.",
    "import-spark": "WRITES: make a store from the state of a query of Spark's.",
}

_EXTRAS = {"import-spark": "spark"}
"""Where what a command needs is not in the extra of its name."""


_TAKES_ANYTHING = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


def add_command_without_package(
    app: typer.Typer, name: str, short_help: str, package: str, install: str
) -> None:
    """Add to *app* a command that cannot be imported: it says that *package* is missing."""

    def run(context: typer.Context) -> None:
        raise MissingDriverError(
            f"the command {name!r} needs the package {package!r}, which is not installed; "
            f"try: {install}"
        )

    app.command(name, short_help=short_help, context_settings=_TAKES_ANYTHING)(run)


def add_installed_commands(app: typer.Typer) -> None:
    """Add every installed command to *app*; it parses its own arguments, ``--help`` too."""
    for entry in sorted({*_OWN, *entry_points(group=GROUP)}):
        app.command(
            entry.name,
            short_help=_SHORT_HELP.get(entry.name, f"Of {entry.value.partition('.')[0]}."),
            context_settings=_TAKES_ANYTHING,
        )(_runner_of(entry))


def _runner_of(entry: EntryPoint) -> Callable[[typer.Context], None]:
    """Return the command that loads *entry* and passes everything on."""

    def run(context: typer.Context) -> None:
        try:
            function: Callable[[Sequence[str]], int] = entry.load()
        except ModuleNotFoundError as error:
            own = entry.module.partition(".")[0]
            if error.name is None or error.name.partition(".")[0] == own:
                raise
            extra = _EXTRAS.get(entry.name, entry.name)
            raise MissingDriverError(
                f"the command {entry.name!r} needs the package {error.name!r}, which is not "
                f"installed; try: pip install 'statestores[{extra}]'"
            ) from error
        raise typer.Exit(function(context.args))

    return run
