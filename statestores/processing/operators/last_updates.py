"""Where the last update of each key is all that matters, and others may be left out (PRC-56).

An update that is dropped where it fails does not stand for the one before it. So nothing is left
out where a step may drop one: only the topic of a store's own serdes takes whatever that has taken.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from statestores.processing.operators.ends import Sink
from statestores.processing.operators.operator import Operator, Pass, Receive
from statestores.processing.operators.stateless import MapValues
from statestores.processing.operators.table_joins import TableStore
from statestores.processing.operators.tables import TableMapValues, ToStream
from statestores.processing.operators.windowed import WindowedOperator
from statestores.processing.stores import key_serde, value_serde
from statestores.processing.topology import Node
from statestores.serdes.stamped_serde import StampedSerde
from statestores.serdes.windowed_serde import WindowedSerde
from statestores.spi import Serde

_CANNOT_TELL = (Pass, ToStream, TableStore, TableMapValues, MapValues)
"""Operators behind which the last update of a key makes of the last one what all make."""

_GIVE_IT_ON = (Pass, ToStream)
"""Those of them that give it on as it is."""


class _Stored(NamedTuple):
    """By what a store has encoded an update, so that it can be encoded again."""

    key: Serde[Any]
    """The serde of its key."""

    value: Serde[Any]
    """The serde of its value."""


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

    Sinks of topics that the topology reads can: *topics_read*. So can a step that may drop the last
    update and leave the one before (PRC-103), as *ways* say where they are not the operators' own.
    """
    stored = _stored_by(node, operators[node.name])
    return _only_last_matters(node, stored, below, operators, ways, topics_read)


def _only_last_matters(
    node: Node,
    stored: _Stored | None,
    below: Mapping[str, Sequence[Node]],
    operators: Mapping[str, Operator],
    ways: Mapping[str, Receive],
    topics_read: Collection[str],
) -> bool:
    """Return it, of updates as they are *stored*; ``None``: nobody has encoded them."""
    for child in below[node.name]:
        operator = operators[child.name]
        gives_it_on = isinstance(operator, _GIVE_IT_ON)
        may_drop = not gives_it_on and ways[child.name] != operator.receive
        if type(operator) is Sink:
            topic = operator.topic
            if topic.name in topics_read or (may_drop and stored != (topic.key, topic.value)):
                return False
        elif (
            may_drop
            or not isinstance(operator, _CANNOT_TELL)
            or not _only_last_matters(
                child, stored if gives_it_on else None, below, operators, ways, topics_read
            )
        ):
            return False
    return True


def _stored_by(node: Node, operator: Any) -> _Stored | None:
    """Return by what the store of *node* has encoded the updates that come out of it."""
    fold = getattr(operator, "fold", None)
    if fold is not None and fold.result is not None:
        return None  # what comes out is made of what is stored
    store = next(each for each in node.stores if each.name == operator.store)
    key, value = key_serde(store), value_serde(store)
    if isinstance(operator, WindowedOperator):
        key = WindowedSerde(key)
    return _Stored(key, value.inner if isinstance(value, StampedSerde) else value)
