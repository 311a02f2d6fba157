"""The nodes of a topology while it is written down, and their names."""

from collections.abc import Callable
from typing import Any

from statestores.errors import InvalidArgumentError, InvalidTopologyError
from statestores.processing.operators.ends import RepartitionSink, Sink, Source
from statestores.processing.operators.operator import Operator
from statestores.processing.topic import Topic, check_topic_name
from statestores.processing.topology import Node
from statestores.spi import Serde, StoreSpecification


class Builder:
    """Collects nodes.

    What outlives a process has a name of the user's or of what it hangs on. A step without a name
    gets one for printing, from its parent and its kind.
    """

    def __init__(
        self, name: str, *, stream: Callable[..., Any], grouped_table: Callable[..., Any]
    ) -> None:
        """Begin a topology called *name*.

        *stream* and *grouped_table* are the classes of these, which tables make.
        """
        check_topic_name(name, "topology")
        self.name = name
        self.stream = stream
        self.grouped_table = grouped_table
        self.nodes: dict[str, Node] = {}

    def add(self, node: Node) -> Node:
        """Add *node*.

        Raises:
            InvalidTopologyError: There is one of its name.
        """
        if node.name in self.nodes:
            raise InvalidTopologyError(
                f"there is a step called {node.name!r} already, a {self.nodes[node.name].kind}; "
                "give this one another name with name=..."
            )
        self.nodes[node.name] = node
        return node

    def step(
        self,
        kind: str,
        parents: tuple[str, ...],
        make: Callable[[], Operator],
        *,
        name: str | None = None,
        stores: tuple[StoreSpecification[Any, Any], ...] = (),
        **more: Any,
    ) -> str:
        """Add a node of *kind*; return its name."""
        chosen = self.unused(parents[0], kind) if name is None else name
        node = Node(name=chosen, kind=kind, parents=parents, make=make, stores=stores, **more)
        return self.add(node).name

    def unused(self, parent: str, kind: str) -> str:
        """Return a name for a step that remembers nothing."""
        name, number = f"{parent}.{kind}", 1
        while name in self.nodes:
            number += 1
            name = f"{parent}.{kind}-{number}"
        return name

    def source(self, topic: Topic[Any, Any], make: Callable[[], Operator], **more: Any) -> str:
        """Add the source of *topic*, or find it; return its name."""
        name = f"source-{topic.name}"
        node = self.nodes.get(name)
        if node is None:
            self.add(Node(name=name, kind="source", make=make, reads=topic, **more))
        elif (node.is_internal, node.is_global) != (
            more.get("is_internal", False),
            more.get("is_global", False),
        ):
            raise InvalidTopologyError(
                f"the topic {topic.name!r} is read in two ways: as a global table or as a topic of "
                "the topology's own, and otherwise; copy it into another topic, or rename one"
            )
        elif node.reads != topic:
            raise InvalidTopologyError(
                f"the topic {topic.name!r} is described in two ways: {node.reads!r} and {topic!r}; "
                "use one Topic"
            )
        return name

    def repartition(
        self,
        parent: str,
        purpose: str,
        key: Serde[Any],
        value: Serde[Any],
        *,
        partitions: int | None = None,
        partitioner: str = "murmur2",
        keeps_keyless: bool = False,
    ) -> str:
        """Send *parent*'s records through a topic of the topology's own; return its source.

        Those without key are dropped (PRC-31), or kept where they mean something without (PRC-38).
        """
        topic: Topic[Any, Any] = Topic(
            f"{self.name}-{purpose}-repartition",
            key=key,
            value=value,
            partitions=partitions,
            partitioner=partitioner,
        )
        self.add(
            Node(
                name=f"{purpose}-repartition",
                kind="repartition",
                parents=(parent,),
                make=lambda: (Sink if keeps_keyless else RepartitionSink)(topic),
                writes=topic,
                is_internal=True,
            )
        )
        return self.source(topic, lambda: Source(topic), is_internal=True)


def check_how(how: str, allowed: tuple[str, ...]) -> None:
    """Accept one of the kinds of joins.

    Raises:
        InvalidArgumentError: It is none of them.
    """
    if how not in allowed:
        raise InvalidArgumentError(
            f"how must be one of {', '.join(map(repr, allowed))}, got {how!r}"
        )
