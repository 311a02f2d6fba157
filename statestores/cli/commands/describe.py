"""The command `describe`: what a topology is made of."""

from typing import Annotated

import typer

from statestores.cli.topology_module import TopologyArgument, load_topology


def describe(
    topology: TopologyArgument,
    *,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a Mermaid flowchart instead of text.")
    ] = False,
) -> None:
    """Print the parts of a topology, their steps, stores and topics.

    Example: statestores describe shop.counting:topology --mermaid
    """
    found = load_topology(topology)
    typer.echo(found.mermaid() if mermaid else found.describe(), nl=False)
