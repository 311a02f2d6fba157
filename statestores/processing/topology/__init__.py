"""What a topology is: nodes, checked and printable, without anything that runs."""

from statestores.processing.topology.checks import build_graph
from statestores.processing.topology.comparison import (
    Description,
    check_fits,
    check_upgrade,
    describe,
    differences,
)
from statestores.processing.topology.graph import Graph, SubTopology
from statestores.processing.topology.node import Node
from statestores.processing.topology.printing import as_document, as_mermaid, as_text

__all__ = [
    "Description",
    "Graph",
    "Node",
    "SubTopology",
    "as_document",
    "as_mermaid",
    "as_text",
    "build_graph",
    "check_fits",
    "check_upgrade",
    "describe",
    "differences",
]
