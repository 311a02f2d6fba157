"""Calls of the command line in this process.

Typer's runner puts the group together anew for each call: thirty commands with all their options,
half of the processor time of the tests of the command line. One that is put together serves all.
"""

from collections.abc import Mapping
from unittest import mock

from typer.main import get_command
from typer.testing import CliRunner, Result

from statestores.cli.application import app

_GROUP = get_command(app)


def invoke(*arguments: object, environment: Mapping[str, str] | None = None) -> Result:
    """Run one command; return how it has ended, and what it has printed."""
    with mock.patch("typer.testing._get_command", return_value=_GROUP):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment)
