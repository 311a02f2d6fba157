"""The command `describe`: what a topology is made of."""

from typing import Annotated

import typer

from statestores.cli.arguments import JsonOption
from statestores.cli.output import Output
from statestores.cli.topology_module import TopologyArgument, load_topology
from statestores.errors import InvalidArgumentError
from statestores.processing.topology import as_document


def describe(
    topology: TopologyArgument,
    *,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a Mermaid flowchart instead of text.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Print the parts of a topology, their steps, stores and topics.

    Example: statestores describe shop.counting:topology --mermaid
    """
    if json and mermaid:
        raise InvalidArgumentError(
            "the output is JSON or a flowchart; leave --json or --mermaid out"
        )
    found = load_topology(topology)
    if json:
        Output(json=True).document(as_document(found.build()))
    else:
        typer.echo(found.mermaid() if mermaid else found.describe(), nl=False)
