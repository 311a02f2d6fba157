"""Where the rows of two topics meet: in a join of streams, on columns.

Rows of both sides are joined at once, in the order in which they come up. What is in front of the
join is done with all rows of one topic, then of the other; that may be, since these steps remember
nothing and nobody else is given what they make.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from statestores.processing.columns.rows import RecordColumns
from statestores.processing.columns.streams.joined import Joined
from statestores.processing.columns.streams.rows import Side
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.columns.ways import HANDLERS, ColumnEntry
from statestores.processing.error_policy import ErrorPolicy
from statestores.processing.operators.last_updates import children_of
from statestores.processing.operators.operator import Operator, Pass, Receive
from statestores.processing.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    Rekey,
)
from statestores.processing.operators.stream_stream import StreamJoinSide
from statestores.processing.topology import Node, SubTopology

_REMEMBER_NOTHING = frozenset({Filter, Map, FlatMap, MapValues, FlatMapValues, Rekey})
"""The steps that may be in front of a join."""


class _Way(NamedTuple):
    """The way from a source to its side of a join."""

    steps: Sequence[Operator]
    """What is in between."""

    side: StreamJoinSide
    """The side."""

    node: Node
    """The node behind the join, where both sides meet."""

    def through(self, columns: RecordColumns, task: TaskRows) -> Side:
        """Return what comes to the side of *columns*. Raises what a step does."""
        for step in self.steps:
            found = HANDLERS[type(step)](step, columns, task)
            assert isinstance(found, RecordColumns)  # noqa: S101  # of records, and never none
            columns = found
        return Side(self.side, columns)


class Meeting:
    """Two topics of a task whose rows meet in a join, and nowhere else."""

    def __init__(self, ways: Mapping[str, _Way], entry: ColumnEntry) -> None:
        """Join what comes through *ways*, by topic, and give it to *entry*."""
        self._ways = ways
        self.entry = entry
        self.name = next(iter(ways.values())).node.name

    def joined(self, several: Mapping[str, RecordColumns], task: TaskRows) -> Joined | None:
        """Return the rows of all topics joined; ``None``: none comes so far. Raises what fails."""
        sides = [self._ways[topic].through(each, task) for topic, each in several.items()]
        sides = [each for each in sides if len(each.columns)]
        return Joined(sides, task) if sides else None

    def give(self, joined: Joined | None, task: TaskRows) -> None:
        """Keep what is *joined*, and do with what comes out all there is to do."""
        found = None if joined is None else joined.put(task)
        if found is not None:
            self.entry.take(found, task)


class Meetings:
    """Which topics of a task meet."""

    def __init__(
        self,
        part: SubTopology,
        operators: Mapping[str, Operator],
        ways: Mapping[str, Receive],
        errors: ErrorPolicy,
        least_rows: int,
        least_run_rows: int,
    ) -> None:
        """Look at *part*: batches begin at *least_rows*, runs at *least_run_rows*."""
        below = children_of(part.nodes)
        found = {
            node.reads.name: way
            for node in part.sources
            if node.reads is not None and (way := _way_from(node, below, operators)) is not None
        }
        self._several: dict[frozenset[str], tuple[Meeting, Meeting]] = {}
        if errors.dead_letter_topics:  # letters of several steps would come in another order
            return
        for topic, way in found.items():
            for other, its in found.items():
                if way.node is its.node and way.side.is_left and not its.side.is_left:
                    entries = [
                        ColumnEntry(part, way.node, operators, ways, least, is_run=is_run)
                        for least, is_run in ((least_rows, False), (least_run_rows, True))
                    ]
                    pair = {topic: way, other: its}
                    self._several[frozenset(pair)] = (
                        Meeting(pair, entries[0]),
                        Meeting(pair, entries[1]),
                    )

    @property
    def declined(self) -> dict[str, dict[str, int]]:
        """Where columns were tried and not used, why, and how often."""
        several = [each for both in self._several.values() for each in both]
        found = {
            way.operator.name: dict(way.declined)
            for each in several
            for way in each.entry.steps
            if way.declined
        }
        return found | {
            each.name: dict(each.entry.declined) for each in several if each.entry.declined
        }

    def of(self, topics: Sequence[str], rows: int) -> Meeting | None:
        """Return where so many rows of *topics* meet; ``None``: nowhere, or one by one."""
        meetings = self._several.get(frozenset(topics), ()) if len(topics) == 2 else ()  # noqa: PLR2004  # sides
        for meeting in meetings:
            if meeting.entry.why_not is None and rows >= meeting.entry.least_rows:
                return meeting
        return None


def _way_from(
    source: Node, below: Mapping[str, Sequence[Node]], operators: Mapping[str, Operator]
) -> _Way | None:
    """Return the only way from *source*, if it leads to a side of a join."""
    steps: list[Operator] = []
    node = source
    while len(below[node.name]) == 1:
        (node,) = below[node.name]
        operator = operators[node.name]
        if isinstance(operator, StreamJoinSide):
            (meeting,) = below[node.name]
            return _Way(steps, operator, meeting)
        if type(operator) in _REMEMBER_NOTHING:
            steps.append(operator)
        elif not isinstance(operator, Pass):
            return None
    return None
