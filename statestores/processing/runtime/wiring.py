"""The operators of a part, made for one task and wired to each other."""

from collections.abc import Callable

from statestores.processing.error_policy import Action, ErrorPolicy
from statestores.processing.operators.ends import Sink
from statestores.processing.operators.operator import Operator, Pass, Receive
from statestores.processing.runtime.failures import guarded
from statestores.processing.topology import Node, SubTopology


def wired(
    part: SubTopology, errors: ErrorPolicy, failed: Callable[[str, Exception, Action], None]
) -> tuple[dict[str, Operator], dict[str, Receive]]:
    """Make the operators of *part*, children first; return them, and what gives to each.

    Where *errors* do not say to fail, *failed* is told what an operator raises.
    """
    children: dict[str, list[Node]] = {node.name: [] for node in part.nodes}
    for node in part.nodes:
        for parent in node.parents:
            children[parent].append(node)
    operators: dict[str, Operator] = {}
    ways: dict[str, Receive] = {}
    for node in reversed(part.nodes):
        operator = operators[node.name] = node.make()
        operator.name = node.name
        operator.wire({child.name: ways[child.name] for child in children[node.name]})
        if isinstance(operator, Pass):
            ways[node.name] = operator.forward
        else:
            action = errors.encode if isinstance(operator, Sink) else errors.process
            ways[node.name] = guarded(operator, action, failed)
    return operators, ways
