"""A store rebuilt from a snapshot and the changelog after it (SNP-10).

Invariant: at every commit of a restore the store carries either the changelog offset at which its
rows stand, or the mark of a half-restored store and no such offset. So it never looks complete
when it is not, and the restore can be called again, whatever it died of.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from statestores.arrow.progress import Meter, ProgressCallback
from statestores.arrow.restore_mark import restore_mark
from statestores.arrow.restoring.plan import RestorePlan, plan_restore
from statestores.arrow.restoring.row_sink import RowSink
from statestores.arrow.restoring.sink import RecordSink, Sink
from statestores.arrow.restoring.taking_back import take_back
from statestores.arrow.snapshots.reader import Snapshot
from statestores.arrow.store_of_bytes import check_owner, store_of_bytes
from statestores.changelog.contract import ReadOnlyChangelog
from statestores.changelog.frame import FrameKind
from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.failpoints import reach
from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.spi.durability import Durability
from statestores.spi.offsets import TopicPartition
from statestores.spi.stores.store import StateStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What `restore` has done."""

    partition: TopicPartition
    """The changelog partition."""

    from_offset: int | None
    """The committed offset that the store had before; ``None`` when it had none."""

    offset: int | None
    """The committed offset that it has now; ``None`` when there was nothing to restore from."""

    snapshot_offset: int | None
    """The offset of the snapshot that was loaded; ``None`` when none was needed."""

    snapshot_rows: int
    """Rows taken from the snapshot."""

    changelog_rows: int
    """Changes taken from the changelog."""

    native: bool = False
    """Whether the snapshot's native part was taken, and not its columns."""


def restore(
    store: StateStore,
    *,
    snapshot: Snapshot | None = None,
    changelog: ReadOnlyChangelog | None = None,
    partition: TopicPartition | None = None,
    to_offset: int | None = None,
    batch_rows: int | None = None,
    progress: ProgressCallback | None = None,
) -> RestoreReport:
    """Bring *store* up to the end of *changelog*, or to *to_offset*, and commit as it goes.

    The changelog alone is enough when it reaches back to the offset after the committed one.
    Otherwise the store is emptied and *snapshot* loaded first: what it held is a part of what the
    snapshot holds. A store of any backend takes a snapshot of any other. *partition* is the
    changelog partition whose offset the store keeps; by default that of the snapshot, or the
    first one of a changelog named for the store.

    *to_offset* is inclusive and the restore stops at the last commit up to it; `RestoreReport`
    says where. The result does not depend on *batch_rows*, the rows between two commits, which by
    default are as many as suit the engine, nor on how often the restore was interrupted and called
    again. When it raises, pending writes are rolled back; a note of the error says if a commit is
    there although it raised, or what hinders the rollback.

    Requires: called by the store's owner, nothing is pending, and nobody compacts the changelog.

    Raises:
        StoreClosedError: The store is closed.
        InvalidTypeError: The store, the snapshot or the changelog is something else.
        InvalidArgumentError: There is neither a snapshot nor a changelog, something is pending, or
            *to_offset* lies before the snapshot or the store, or the store has a changelog.
        StoreMismatchError: The snapshot is of another store; or the store has rows of unknown
            origin, because it has no committed offset; or it is ahead of the changelog.
        OffsetOutOfRangeError: The changelog begins after what the store or snapshot has, or ends
            before *to_offset*.
        SnapshotCorruptedError, ChangelogCorruptedError: They are damaged. A snapshot's sums are
            checked before the store is emptied.
    """
    if batch_rows is not None and batch_rows < 1:
        raise InvalidArgumentError(f"batch_rows must be from 1, got {batch_rows!r}")
    check_owner(store)
    _check_sources(snapshot, changelog)
    if store.has_pending_writes:
        raise InvalidArgumentError(
            f"{store.name!r} has pending writes, which the restore would commit; "
            "commit or roll back first"
        )
    below = store_of_bytes(store)
    if isinstance(below, EngineStore) and below.has_journal:
        raise InvalidArgumentError(
            f"{store.name!r} has a changelog, which a restore would have to change; open the store "
            "by open_logged_store(), which restores it, or restore into one of its own"
        )
    plan = plan_restore(
        store, snapshot=snapshot, changelog=changelog, partition=partition, to_offset=to_offset
    )
    meter = Meter(progress, plan.rows)
    try:
        if plan.snapshot is not None:
            plan.snapshot.verify_checksums()
        if plan.start_over:
            store.truncate()
            reach("restore.begun")
        snapshot_rows = _carry_out(store, changelog, plan, batch_rows, meter)
    except BaseException as error:
        take_back(store, error)
        raise
    return RestoreReport(
        partition=plan.partition,
        from_offset=plan.committed,
        offset=store.committed_offset(plan.partition),
        snapshot_offset=None if plan.snapshot is None else plan.snapshot.offset,
        snapshot_rows=snapshot_rows,
        changelog_rows=meter.rows - snapshot_rows,
    )


def _check_sources(snapshot: object, changelog: object) -> None:
    if snapshot is not None and not isinstance(snapshot, Snapshot):
        raise InvalidTypeError(f"a snapshot is what read_snapshot() gives, got {snapshot!r}")
    if changelog is not None and not isinstance(changelog, ReadOnlyChangelog):
        raise InvalidTypeError(
            f"a changelog is what ChangelogReader.open() gives, got {changelog!r}"
        )


def _carry_out(
    store: StateStore,
    changelog: ReadOnlyChangelog | None,
    plan: RestorePlan,
    batch_rows: int | None,
    meter: Meter,
) -> int:
    """Load and replay what *plan* says, and return how many rows the snapshot had."""
    sink: Sink = RowSink.into(store, plan, batch_rows) or RecordSink(store, batch_rows)
    if plan.snapshot is not None:
        _load(store, plan.snapshot, sink, meter)
    snapshot_rows = meter.rows
    if changelog is not None:
        _replay(store, changelog, plan, sink, meter)
    return snapshot_rows


def _load(store: StateStore, snapshot: Snapshot, sink: Sink, meter: Meter) -> None:
    """Load *snapshot* into the empty *store*; the last commit brings the offsets."""
    mark = restore_mark(store.specification)
    # It is committed first, and stays until the last commit, so that those between are rows alone.
    store.commit({mark: snapshot.offset})
    sink.load(_pieces(snapshot, sink.piece_rows, meter), snapshot.manifest.stream_time_ms)
    store.advance_position(snapshot.manifest.position)
    reach("restore.loaded")
    sink.commit({**snapshot.manifest.offsets, mark: None})
    reach("restore.completed")


def _pieces(snapshot: Snapshot, piece_rows: int, meter: Meter) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *snapshot* in pieces of up to *piece_rows*, and count them."""
    for batch in snapshot.batches():
        for start in range(0, batch.num_rows, piece_rows):
            rows = batch.slice(start, piece_rows)
            yield rows
            meter.add(rows.num_rows, rows.nbytes)


def _replay(
    store: StateStore,
    changelog: ReadOnlyChangelog,
    plan: RestorePlan,
    sink: Sink,
    meter: Meter,
) -> None:
    """Replay the frames of *changelog* that *plan* names; each commit brings its offset."""
    reached: dict[TopicPartition, int] = {}
    # To the end, and not to `plan.stop`: a commit that extends past it would be cut in two.
    frames = changelog.read(plan.start)
    with ExitStack() as stack:
        if isinstance(frames, Generator):
            stack.callback(frames.close)
        for frame in frames:
            if frame.last_offset >= plan.stop:
                break
            if frame.kind is FrameKind.CLEAR:
                sink.truncate()
            else:
                if not sink.takes(frame):
                    _commit_on_the_way(sink, reached)
                sink.replay(frame)
            store.advance_position(frame.position)
            reached = {plan.partition: frame.last_offset}
            meter.add(frame.batch.num_rows, frame.batch.nbytes, frame.last_offset)
            if sink.is_full:
                _commit_on_the_way(sink, reached)
    # As durable as the store's commits are, and so everything before it is.
    sink.commit(reached)


def _commit_on_the_way(sink: Sink, reached: Mapping[TopicPartition, int]) -> None:
    sink.commit(reached, Durability.PROCESS_CRASH)
    reach("restore.replayed")
