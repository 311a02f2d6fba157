"""Where the last update of each key is all that matters, and others may be left out (PRC-56)."""

from collections.abc import Collection, Mapping, Sequence

from statestores.processing.operators.ends import Sink
from statestores.processing.operators.operator import Operator, Pass, Receive
from statestores.processing.operators.stateless import MapValues
from statestores.processing.operators.table_joins import TableStore
from statestores.processing.operators.tables import TableMapValues, ToStream
from statestores.processing.topology import Node

_CANNOT_TELL = (Pass, ToStream, TableStore, TableMapValues, MapValues)
"""Operators behind which the last update of a key makes of the last one what all make."""


def children_of(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    """Return the children of each of *nodes*, by its name."""
    below: dict[str, list[Node]] = {node.name: [] for node in nodes}
    for node in nodes:
        for parent in dict.fromkeys(node.parents):
            below[parent].append(node)
    return below


def only_last_matters(
    node: Node,
    below: Mapping[str, Sequence[Node]],
    operators: Mapping[str, Operator],
    ways: Mapping[str, Receive],
    topics_read: Collection[str],
) -> bool:
    """Whether nobody behind *node* can tell that other updates than each key's last are missing.

    Sinks of topics that the topology reads can: *topics_read*. So can the function of a stream that
    may drop the last update and leave the one before, as *ways* say where they are not the
    operators' own.
    """
    for child in below[node.name]:
        operator = operators[child.name]
        if type(operator) is Sink:
            if operator.topic.name in topics_read:
                return False
        elif (
            not isinstance(operator, _CANNOT_TELL)
            or (type(operator) is MapValues and ways[child.name] != operator.receive)
            or not only_last_matters(child, below, operators, ways, topics_read)
        ):
            return False
    return True
