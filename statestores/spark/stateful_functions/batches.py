"""The driver's side of a stateful operator in a directory: each micro-batch once, come what may.

The steps of a micro-batch, of which each may be the last one of this driver:

1. A micro-batch that is committed and not carried out is carried out.
2. If it is the one to do, what it has emitted is given again, and nothing is computed.
3. The ends of the changelogs are pinned, and the tasks compute from there and stage.
4. With the locks of all stores: the record is made durable, which commits, and then carried out.
5. What was emitted is given to the sink.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from statestores.begun_partitions import refuse_gone
from statestores.errors import (
    CommitConflictError,
    StoreCorruptedError,
    StoreMismatchError,
    StoreNotFoundError,
)
from statestores.generations import current_home
from statestores.reading.locations import changelog_of
from statestores.spark.stateful_functions.micro_batch import Compute, MicroBatch, OperatorBatches
from statestores.spark.stateful_functions.plan import StatefulPlan
from statestores.spark.stateful_functions.task import StatefulTask
from statestores.staging.committed_write import unless_published
from statestores.staging.operator_file import (
    BatchRecord,
    StoreChanges,
    forget_record,
    read_record,
    remove_other_outputs,
    store_record,
)
from statestores.staging.staged_rows import staged_size
from statestores.staging.staged_write import Publisher, StagedRows, discard, publishing
from statestores.staging.unfinished_write import finish_staged_writes
from statestores.staging.write_intent import read_intent, write_directory
from statestores.state_root import StateRoot

if TYPE_CHECKING:
    from pathlib import Path

    from statestores.changelog import ChangelogReader


class MicroBatches(OperatorBatches):
    """Runs micro-batches on stores in a directory."""

    def __init__(self, plan: StatefulPlan) -> None:
        super().__init__(plan)
        self._readers: dict[Path, ChangelogReader] = {}

    def run(self, batch: MicroBatch, compute: Compute) -> BatchRecord:
        plan = self._plan
        root = StateRoot.open(plan.root)
        self._check_partitions(root)
        record = self._when_unlocked(lambda: self._settled(root))
        if record is not None:
            for name in record.stores:
                record.check_ends(name, self._end_offsets(root, name, recorded=True))
        if record is not None and (record.query, record.number) == (batch.query, batch.number):
            self._check_columns(record.number, record.columns)
            return record
        is_same = record is not None and record.query == batch.query
        self._check_sequence(record.number if record is not None and is_same else -1, batch)
        ends = {each.name: self._end_offsets(root, each.name) for each in plan.specifications}
        read = {each.name: self._end_offsets(root, each.name) for each in plan.tables}
        results = compute(
            StatefulTask(
                plan=plan,
                write_id=batch.write_id,
                number=batch.number,
                end_offsets={**ends, **read},
            )
        )
        record = BatchRecord(
            operator=plan.name,
            query=batch.query,
            number=batch.number,
            write_id=batch.write_id,
            stores={
                name: StoreChanges(
                    end_offsets=end_offsets,
                    files=tuple(file for result in results for file in result.stores[name]),
                )
                for name, end_offsets in ends.items()
            },
            outputs=tuple(output for result in results for output in result.outputs),
            columns=self._columns,
        )
        self._commit(root, record)
        return record

    def settle(self) -> BatchRecord | None:
        root = StateRoot.open(self._plan.root)
        return self._when_unlocked(lambda: self._settled(root))

    def is_known(self) -> bool:
        return self._plan.directory.is_dir()

    def forget_outputs(self) -> None:
        remove_other_outputs(self._plan.directory, "")

    def give_up(self, batch: MicroBatch) -> None:
        plan = self._plan

        def last() -> str:
            record = read_record(plan.directory)
            return "" if record is None else record.write_id

        def counts() -> bool:
            return last() == batch.write_id

        for each in plan.specifications:
            discard(plan.root, each.name, batch.write_id, counts=counts)
        # Another driver of the query, which has the locks of all stores, may be about to commit.
        with unless_published(current_home(plan.root, plan.specifications[0].name)) as is_free:
            if is_free and not counts():
                remove_other_outputs(plan.directory, last())

    def _settled(self, root: StateRoot) -> BatchRecord | None:
        """Carry out what is committed, and return it; ``None`` if there is nothing committed."""
        for specification in self._plan.specifications:
            finish_staged_writes(root, specification.name)
        record = read_record(self._plan.directory)
        if record is None:
            return None
        if all(_has(root, name, record) for name in record.stores):
            for name in record.stores:
                discard(root.path, name, record.write_id)  # when a driver died before it did
            return record
        with ExitStack() as locks:
            publishers = _publishers(root, record.stores, locks)
            # Before the record is forgotten because others have written meanwhile: they add.
            for name, each in publishers.items():
                record.check_ends(name, each.end_offsets, is_done=False)
            behind = [name for name, each in publishers.items() if not each.has(record.batch)]
            changed = [name for name in behind if not _is_as_pinned(publishers[name], record, name)]
            if changed and len(behind) == len(publishers):
                # Nobody has seen anything of it, so it comes again and is computed anew.
                forget_record(self._plan.directory)
                return None
            if changed:
                raise StoreCorruptedError(
                    f"another program has written to {changed[0]!r} before the micro-batch "
                    f"{record.write_id!r} of {self._plan.name!r} was carried out, and other stores "
                    "have it; restore the state root, and let one query write it"
                )
            for name in behind:
                staged = write_directory(root.home(name), record.write_id)
                if record.stores[name].files and not staged.is_dir():
                    raise StoreCorruptedError(
                        f"the micro-batch {record.write_id!r} of {self._plan.name!r} is committed, "
                        f"and {name!r} has neither its changes nor what was staged for it: an "
                        "older copy of the store has been put back; put back the newest one, or "
                        "begin with a new state and a new checkpoint"
                    )
                _publish(publishers[name], record, name)
        return record

    def _commit(self, root: StateRoot, record: BatchRecord) -> None:
        """Make *record* durable and carry it out, with the locks of all stores."""
        with ExitStack() as locks:
            publishers = self._when_unlocked(lambda: _publishers(root, record.stores, locks))
            for name, publisher in publishers.items():
                if publisher.has(record.batch):
                    self._refuse_twin(record)
                    raise StoreMismatchError(
                        f"{name!r} has the micro-batch {record.number} of the query "
                        f"{record.query!r} already, and another query has used "
                        f"{self._plan.name!r} since, so what it emitted is gone; begin with a new "
                        "checkpoint"
                    )
                if not _is_as_pinned(publisher, record, name):
                    raise CommitConflictError(
                        f"another program has written to {name!r} while the micro-batch "
                        f"{record.number} was computed, so it is not committed; start the query "
                        "again"
                    )
            self._check_staged(root, record)
            self._plan.directory.mkdir(parents=True, exist_ok=True)
            store_record(self._plan.directory, record)
            for name, publisher in publishers.items():
                _publish(publisher, record, name)
        remove_other_outputs(self._plan.directory, record.write_id)

    def _refuse_twin(self, record: BatchRecord) -> None:
        """Accept a *record* that is not the last one already.

        Raises:
            CommitConflictError: It is: another driver has computed the micro-batch as well.
        """
        last = read_record(self._plan.directory)
        if last is not None and last.write_id == record.write_id:
            raise CommitConflictError(
                f"another driver of the query {record.query!r} has committed its micro-batch "
                f"{record.number} at this moment; stop one of them, and start the query again with "
                "the checkpoint that it has, which goes on from there"
            )

    def _check_staged(self, root: StateRoot, record: BatchRecord) -> None:
        """Accept a *record* of files that are there: with the locks, nobody takes them away.

        Raises:
            StoreNotFoundError: One is gone: another driver has given up the same micro-batch.
        """
        for name, changes in record.stores.items():
            staged = write_directory(root.home(name), record.write_id)
            for file in changes.files:
                staged_size(staged / file.name)
        for file in record.outputs:
            staged_size(self._plan.directory / record.write_id / file.name)

    def _end_offsets(
        self, root: StateRoot, store: str, *, recorded: bool = False
    ) -> dict[int, int]:
        """Return where the changelogs of *store* end; no write of it is unfinished.

        One that is gone is refused (LAY-35), or, where ends are *recorded*, ends at 0: then the
        record says what has been lost.
        """
        entry, ends = root.store(store), {}
        for number in range(entry.partitions):
            directory = root.partition(store, number)  # elsewhere after a reshard
            reader = self._readers.get(directory.path)
            try:
                if reader is None:
                    reader = changelog_of(directory, entry.specification)
                    self._readers[directory.path] = reader
                ends[number] = reader.end_offset
            except StoreNotFoundError:
                if not recorded:
                    refuse_gone(directory)
                ends[number] = 0
        return ends


def _has(root: StateRoot, store: str, record: BatchRecord) -> bool:
    """Return whether *store* has the micro-batch, none of its writes being unfinished."""
    intent = read_intent(root.home(store))
    return intent is not None and record.batch.is_in(intent.batches)


def _publishers(
    root: StateRoot, stores: Mapping[str, StoreChanges], locks: ExitStack
) -> dict[str, Publisher]:
    """Take the locks of *stores*, of all or of none, and leave them to *locks*."""
    with ExitStack() as taken:
        publishers = {name: taken.enter_context(publishing(root, name)) for name in sorted(stores)}
        locks.push(taken.pop_all())
    return publishers


def _is_as_pinned(publisher: Publisher, record: BatchRecord, name: str) -> bool:
    return publisher.end_offsets == dict(record.stores[name].end_offsets)


def _publish(publisher: Publisher, record: BatchRecord, name: str) -> None:
    """Append what *record* says to the changelogs of the store *name*."""
    staged = StagedRows(write_id=record.write_id, files=record.stores[name].files)
    publisher.publish(record.write_id, [staged], batch=record.batch)
