"""The way of a batch through the operators of a task, and where it has to go record by record.

On columns, all rows pass one operator before the first passes the next. That may be done where
nobody can tell: where no two operators behind a source share a store or a topic, where no two ways
from it meet, and where no code of the user's asks for the time or for timers. Elsewhere the whole
batch is a loop over its records. An operator that has no columns, or not for what it is given, is
given the rows one by one, and so is what is behind it.

A run is a batch of which every update comes out (PRC-95): the same ways, with other aggregates.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from statestores.processing.columns.aggregates import aggregated, kept, versions_kept
from statestores.processing.columns.batches import (
    MapBatches,
    Mapped,
    ProcessBatches,
    batches_mapped,
    batches_processed,
)
from statestores.processing.columns.column import NotOnColumnsError
from statestores.processing.columns.every_update import every_row, every_update
from statestores.processing.columns.expressions import is_on_columns
from statestores.processing.columns.joins import joined_as_of
from statestores.processing.columns.rows import Columns
from statestores.processing.columns.sessions import every_session, last_sessions
from statestores.processing.columns.stateless import (
    emitted,
    filtered,
    flat_mapped,
    mapped,
    rekeyed,
    to_stream,
    values_flat_mapped,
    values_mapped,
)
from statestores.processing.columns.streams.joined import joined_side
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.columns.windows import every_window, windowed
from statestores.processing.operators.aggregates import Aggregate
from statestores.processing.operators.ends import RepartitionSink, Sink
from statestores.processing.operators.last_updates import children_of, only_last_matters
from statestores.processing.operators.operator import Operator, Pass, Receive
from statestores.processing.operators.processors import Process
from statestores.processing.operators.sessions import SessionWindowed
from statestores.processing.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    Rekey,
)
from statestores.processing.operators.stream_stream import StreamJoinSide
from statestores.processing.operators.stream_table import AsOfJoin
from statestores.processing.operators.tables import (
    TableSource,
    ToStream,
    VersionedTableSource,
)
from statestores.processing.operators.windowed import TimeWindowed
from statestores.processing.topology import Node, SubTopology

Handler: TypeAlias = Callable[[Any, Any, TaskRows], Columns | Mapped | None]
"""Does what an operator does, on columns; or raises before it has changed anything."""

HANDLERS: Mapping[type[Operator], Handler] = {
    Filter: filtered,
    Map: mapped,
    FlatMap: flat_mapped,
    MapValues: values_mapped,
    FlatMapValues: values_flat_mapped,
    Rekey: rekeyed,
    ToStream: to_stream,
    Sink: emitted,
    RepartitionSink: emitted,
    Aggregate: aggregated,
    TableSource: kept,
    VersionedTableSource: versions_kept,
    TimeWindowed: windowed,
    SessionWindowed: last_sessions,
    AsOfJoin: joined_as_of,
    StreamJoinSide: joined_side,
    MapBatches: batches_mapped,
    ProcessBatches: batches_processed,
}
"""The operators that have columns."""

_OF_RUNS: Mapping[type[Operator], Handler | None] = {
    **HANDLERS,
    Aggregate: every_update,
    TableSource: every_row,
    TimeWindowed: every_window,
    SessionWindowed: every_session,
    MapBatches: None,
    ProcessBatches: None,
}
"""The operators that take runs."""


_NEVER_ROWS = 1 << 60
"""Who asks for columns from so many rows on wants none, of expressions neither."""


class ColumnWay:
    """One operator on the way of a batch."""

    def __init__(
        self,
        operator: Operator,
        receive: Receive,
        handler: Handler | None,
        children: Sequence["ColumnWay"],
        least_rows: int,
    ) -> None:
        """Use *handler* from *least_rows* on; else give the rows to *receive*."""
        self.operator = operator
        self.receive = receive
        self.handler = handler
        self.children = tuple(children)
        self.least_rows = least_rows
        self.declined: Counter[str] = Counter()
        """Why columns were not used, and how often."""

    def take(self, columns: Columns, task: TaskRows) -> None:
        """Take records or changes, and do with them all there is to do."""
        if not len(columns):
            return
        if self.handler is not None and len(columns) >= self.least_rows:
            try:
                found = self.handler(self.operator, columns, task)
            except Exception as error:
                if type(self.operator) is ProcessBatches and type(error) is not NotOnColumnsError:
                    raise  # its stores may have been changed
                self.declined[f"{type(error).__name__}: {error}"] += 1
            else:
                if isinstance(found, Mapped):
                    found, task = found
                if found is not None:
                    for child in self.children:
                        child.take(found, task)
                return
        at, receive = task.at, self.receive
        for row, item in columns.items():
            at(row)
            receive(item)


class ColumnEntry:
    """Where the batches of one source begin."""

    def __init__(
        self,
        part: SubTopology,
        source: Node,
        operators: Mapping[str, Operator],
        ways: Mapping[str, Receive],
        least_rows: int,
        *,
        is_run: bool = False,
    ) -> None:
        """Find the ways behind *source*; of a run, every update comes out."""
        below = children_of(part.nodes)
        self.why_not = _why_not(source, below, operators)
        """Why batches of this source are taken record by record; ``None``: they are not."""
        self.steps: list[ColumnWay] = []
        """The operators behind the source, children first."""
        self.declined: Counter[str] = Counter()
        """Why batches could not be decoded as columns, and how often."""

        def made(node: Node) -> ColumnWay:
            operator = operators[node.name]
            handler = (_OF_RUNS if is_run else HANDLERS).get(type(operator))
            if _gives_updates(operator) and not only_last_matters(
                node, below, operators, ways, part.topics_read
            ):
                handler = _OF_RUNS[type(operator)]
            if type(operator) is ProcessBatches and _may_go_on(node, below, operators, ways):
                handler = None  # what fails drops its record, and nothing else
            least = 1 if _has_expression(operator) or is_run else least_rows
            if isinstance(operator, Pass):
                handler = _passed
            children = [made(child) for child in below[node.name]]
            way = ColumnWay(operator, ways[node.name], handler, children, least)
            self.steps.append(way)
            return way

        self.children = [made(child) for child in below[source.name]]
        expressions = any(_has_expression(way.operator) for way in self.steps)
        is_never = least_rows >= _NEVER_ROWS
        if expressions and not is_never and not is_run:
            least_rows = min(2, least_rows)
        self.least_rows = least_rows
        """From how many records on columns are tried."""
        if not any(way.handler is not None for way in self.children):
            self.why_not = self.why_not or "no operator behind it has columns"

    def take(self, columns: Columns, task: TaskRows) -> None:
        """Take the records of a batch."""
        for child in self.children:
            child.take(columns, task)


def _gives_updates(operator: Operator) -> bool:
    """Whether *operator*, in a batch, gives on the last update of each key only."""
    if isinstance(operator, (TimeWindowed, SessionWindowed)):
        return not operator.emission.on_close
    return type(operator) in (Aggregate, TableSource)


def _may_go_on(
    node: Node,
    below: Mapping[str, list[Node]],
    operators: Mapping[str, Operator],
    ways: Mapping[str, Receive],
) -> bool:
    """Whether a record at which *node* or a step behind it fails does not stop the task."""
    operator = operators[node.name]
    is_guarded = not isinstance(operator, Pass) and ways[node.name] != operator.receive
    return is_guarded or any(
        _may_go_on(child, below, operators, ways) for child in below[node.name]
    )


def _passed(operator: Operator, columns: Any, task: TaskRows) -> Any:
    del operator, task
    return columns


def _has_expression(operator: Operator) -> bool:
    if isinstance(operator, (MapBatches, ProcessBatches)):
        return True
    used = (getattr(operator, name, None) for name in ("predicate", "function", "select"))
    return any(is_on_columns(each) for each in used)


def _why_not(
    source: Node, below: Mapping[str, list[Node]], operators: Mapping[str, Operator]
) -> str | None:
    """Return what could tell that all rows pass one operator before the first passes the next."""
    ahead, seen = list(below[source.name]), set[str]()
    stores: set[str] = set()
    topics: set[str] = set()
    while ahead:
        node = ahead.pop()
        if node.name in seen:
            return f"two ways from {source.name!r} meet at {node.name!r}"
        seen.add(node.name)
        if type(operators[node.name]) is Process:
            return f"{node.name!r} is code that may ask for the time"
        own = {store.name for store in node.stores}
        if own & stores:
            return f"several steps use {', '.join(sorted(own & stores))}"
        stores |= own
        if node.writes is not None:
            if node.writes.name in topics:
                return f"several steps write {node.writes.name!r}"
            topics.add(node.writes.name)
        ahead += below[node.name]
    return None
