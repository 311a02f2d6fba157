"""The driver's side of a stateful operator in an object store: each micro-batch once.

`statestores.staging.operator_steps` says how several stores are committed by one put. Here are the
micro-batches of queries: which record is which, what is emitted, and what is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from logging import getLogger
from typing import Self, TypeVar

from statestores.changelog.file_log import wall_clock_ms
from statestores.errors import (
    ChangelogCorruptedError,
    CommitConflictError,
    StoreCorruptedError,
    StoreMismatchError,
)
from statestores.failpoints import reach
from statestores.files.strict_json import Fields
from statestores.object_log.changelog import unique_id
from statestores.object_log.documents import Staged
from statestores.object_log.driver import run
from statestores.object_log.names import operator_write_id
from statestores.object_log.requests import Steps
from statestores.object_log.view import View
from statestores.spark.stateful_functions.micro_batch import Compute, MicroBatch, OperatorBatches
from statestores.spark.stateful_functions.plan import StatefulPlan
from statestores.spark.stateful_functions.task import StatefulTask, TaskResult
from statestores.staging.operator_fence import pass_on
from statestores.staging.operator_record import OperatorNames, OperatorRecord, StoreWrite
from statestores.staging.operator_steps import (
    Last,
    carry_out,
    check_nothing_lost,
    choose_anchor,
    claim,
    commit,
    find_anchor,
    find_last,
    join,
    sweep,
)
from statestores.staging.staged_rows import StagedFile, staged_file_from_fields
from statestores.state_root import StateRoot

T = TypeVar("T")

_LOGGER = getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectBatch:
    """A micro-batch that a record names."""

    record: OperatorRecord
    """The record."""

    query: str
    """The query, by the id of its checkpoint."""

    number: int
    """The number of the micro-batch in the query."""

    queries: Mapping[str, int]
    """The last micro-batch of each query that the operator has had, this one included."""

    columns: str
    """The columns of what it emitted, as Arrow names them."""

    outputs: tuple[StagedFile, ...]
    """What its function has emitted."""

    @property
    def write_id(self) -> str:
        """The id under which its tasks have staged, and emitted rows."""
        return self.record.id

    @classmethod
    def of(cls, record: OperatorRecord, shown: str) -> Self:
        """Return what *record* says.

        Raises:
            ChangelogCorruptedError: It says something else.
        """
        fields = Fields(record.told, shown)
        try:
            queries = fields.inside("queries")
            return cls(
                record=record,
                query=fields.text("query"),
                number=fields.integer("number"),
                queries={query: queries.integer(query) for query in queries},
                columns=fields.text("columns"),
                outputs=tuple(map(staged_file_from_fields, fields.objects("outputs"))),
            )
        except StoreCorruptedError as error:
            raise ChangelogCorruptedError(str(error)) from error


class ObjectMicroBatches(OperatorBatches):
    """Runs micro-batches on stores in an object store."""

    def __init__(self, plan: StatefulPlan) -> None:
        super().__init__(plan)
        self._storage = plan.place.objects
        self._names = OperatorNames(plan.name, self._storage.url)
        self._anchor: str | None = None
        self._last: Last | None = None
        self._carried_out: int | None = None
        self._fence: int | None = None
        self._views: dict[str, View] = {}
        self._forgotten: int | None = None
        self._is_swept = False

    def run(self, batch: MicroBatch, compute: Compute) -> ObjectBatch:
        plan = self._plan
        root = plan.place.open()
        self._check_partitions(root)
        anchor = self._anchor
        if anchor is None:
            chosen = choose_anchor(self._names, plan.specifications[0].name)
            anchor = self._anchor = self._ask(chosen)
        last = self._settled(root, anchor)
        before = self._batch_of(last)
        self._join(root, before)
        self._pass_on(root, anchor, last)
        # Where all stores end, after the last record is in all of them.
        ends = {
            each.name: self._ends(root, anchor, last, each.name) for each in plan.specifications
        }
        if before is not None:
            for name, part in before.record.stores.items():
                found = ends.get(name)
                if found is None:
                    found = self._ends(root, anchor, last, name)
                check_nothing_lost(name, part.ends_after(), found)
            if (before.query, before.number) == (batch.query, batch.number):
                self._check_columns(before.number, before.columns)
                return before
            self._check_is_new(before, batch)
        is_same = before is not None and before.query == batch.query
        self._check_sequence(before.number if before is not None and is_same else -1, batch)
        begun = 0 if before is None else before.record.number + 1
        write = operator_write_id(plan.name, begun, unique_id())
        read = {each.name: self._ends(root, anchor, last, each.name) for each in plan.tables}
        results = compute(
            StatefulTask(
                plan=plan,
                write_id=write,
                number=batch.number,
                end_offsets={**ends, **read},
                seen=self._seen(anchor, last, [*ends, *read]),
            )
        )
        record = OperatorRecord(
            number=begun,
            id=write,
            after=None if before is None else before.record.number,
            at_ms=wall_clock_ms(),
            stores={
                name: StoreWrite(ends=each, staged=_staged(results, name))
                for name, each in ends.items()
            },
            told={
                "query": batch.query,
                "number": batch.number,
                "queries": {
                    **({} if before is None else before.queries),
                    batch.query: batch.number,
                },
                "columns": self._columns,
                "outputs": [asdict(file) for result in results for file in result.outputs],
            },
        )
        return self._commit(root, anchor, last, record)

    def settle(self) -> ObjectBatch | None:
        anchor = self._ask(find_anchor(self._names))
        if anchor is None:
            return None
        return self._batch_of(self._settled(self._plan.place.open(), anchor))

    def is_known(self) -> bool:
        if self._last is not None:
            return self._last.record is not None
        return self.settle() is not None

    def forget_outputs(self) -> None:
        record = None if self._last is None else self._last.record
        if record is None or record.number == self._forgotten:
            return
        for file in self._outputs_of(record):
            self._storage.delete(file)
        self._forgotten = record.number

    def give_up(self, batch: MicroBatch) -> None:
        """Remove nothing: tasks may be at work still. What they put goes with a later record."""
        self._is_swept = False

    def _settled(self, root: StateRoot, anchor: str) -> Last:
        """Have all stores take the last record, and return it."""
        self._views = {
            name: view
            for name, view in self._views.items()
            if view.checkpoint.generation == root.object_log(name).generation  # not resharded since
        }
        partitions = range(root.store(anchor).partitions)
        last = self._ask(
            find_last(self._names, root.object_log(anchor).names, partitions, self._last)
        )
        self._last = last
        if last.record is not None and last.record.number != self._carried_out:
            self._carry_out(root, anchor, last.record)
        return last

    def _join(self, root: StateRoot, before: ObjectBatch | None) -> None:
        """Have the log of each store say that it is the operator's, before anything counts on it.

        Who reshards such a store keeps the operator out (OBJ-51).
        """
        known = () if before is None else before.record.stores
        for each in self._plan.specifications:
            if each.name not in known:
                names = root.object_log(each.name).names
                self._ask(join(self._names, names, unique_id()))

    def _pass_on(self, root: StateRoot, anchor: str, last: Last) -> None:
        """Have the stores but the anchor know of a reshard that has put a fence (OBJ-51)."""
        if last.fence != self._fence:
            stores = {each.name for each in self._plan.specifications}
            stores |= set() if last.record is None else last.record.stores.keys()
            logs = [root.object_log(name).names for name in sorted(stores - {anchor})]
            self._ask(pass_on(last, logs, unique_id()))
            self._fence = last.fence

    def _commit(
        self, root: StateRoot, anchor: str, last: Last, record: OperatorRecord
    ) -> ObjectBatch:
        """Have *record* count, in all stores."""
        reach("operator.staged")
        record = self._ask(claim(self._names, record))
        reach("operator.claimed")
        for name, part in record.stores.items():
            if name != anchor and self._ends(root, anchor, last, name) != part.ends:
                raise CommitConflictError(
                    f"another program has written to {name!r} while the micro-batch "
                    f"{record.told['number']} was computed, so it is not committed; start the "
                    "query again"
                )
        names = root.object_log(anchor).names
        self._when_unlocked(
            lambda: self._ask(commit(self._names, names, record, last, unique_id()))
        )
        reach("operator.committed")
        before, last.record = last.record, record
        self._carry_out(root, anchor, record)
        reach("operator.carried-out")
        self._sweep(before, record)
        return ObjectBatch.of(record, self._shown(record))

    def _carry_out(self, root: StateRoot, anchor: str, record: OperatorRecord) -> None:
        logs = {name: root.object_log(name).names for name in record.stores if name != anchor}
        moved = self._when_unlocked(
            lambda: self._ask(carry_out(self._names, record, logs, unique_id(), self._views))
        )
        for name in moved:
            _LOGGER.warning(
                "another program has written to %r while a micro-batch of %r was committed, which "
                "has not seen that, and whose changes come after it; let one query write its "
                "stores",
                name,
                self._plan.name,
            )
        self._carried_out = record.number

    def _sweep(self, before: OperatorRecord | None, record: OperatorRecord) -> None:
        """Remove the record *before*, and what was emitted for others than *record*."""
        if not self._is_swept:
            self._ask(sweep(self._names, record))
            self._is_swept = True
            return
        if before is not None:
            for name in (*self._outputs_of(before), self._names.record(before.number)):
                self._storage.delete(name)

    def _outputs_of(self, record: OperatorRecord) -> list[str]:
        files = ObjectBatch.of(record, self._shown(record)).outputs
        return [f"{self._names.outputs_of(record.id)}{file.name}" for file in files]

    def _ends(self, root: StateRoot, anchor: str, last: Last, store: str) -> dict[int, int]:
        """Return where the partitions of *store* end; of the anchor, when *last* was seen."""
        if store == anchor:
            return {number: part.end for number, part in last.view.parts.items()}
        entry = root.store(store)
        log = root.object_log(store)
        self._views[store] = log.view(range(entry.partitions), self._views.get(store))
        return {number: part.end for number, part in self._views[store].parts.items()}

    def _seen(self, anchor: str, last: Last, stores: Sequence[str]) -> dict[str, dict[int, View]]:
        """Return what was seen of *stores* when their ends were, by partition."""
        views = {name: last.view if name == anchor else self._views[name] for name in stores}
        return {
            name: {number: view.of(number) for number in view.parts} for name, view in views.items()
        }

    def _batch_of(self, last: Last) -> ObjectBatch | None:
        return (
            None if last.record is None else ObjectBatch.of(last.record, self._shown(last.record))
        )

    def _check_is_new(self, before: ObjectBatch, batch: MicroBatch) -> None:
        """Accept a micro-batch of a query that has not come to it, or behind it, before.

        Raises:
            StoreMismatchError: It has, and another query has used the operator since.
        """
        if before.query != batch.query and batch.number <= before.queries.get(batch.query, -1):
            raise StoreMismatchError(
                f"{self._plan.name!r} has had the micro-batch {batch.number} of the query "
                f"{batch.query!r} already, and another query has used it since, so what it emitted "
                "is gone; begin with a new checkpoint"
            )

    def _shown(self, record: OperatorRecord) -> str:
        return self._names.log.shown(self._names.record(record.number))

    def _ask(self, steps: Steps[T]) -> T:
        return run(steps, self._storage)


def _staged(results: Sequence[TaskResult], store: str) -> dict[int, tuple[Staged, ...]]:
    """Return what was staged for *store*, by partition."""
    return {each.partition: each.objects[store] for each in results if each.objects[store]}
