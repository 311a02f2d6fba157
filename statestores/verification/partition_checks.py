"""All checks of one partition: changelog, snapshots, engine, and whether they agree."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from statestores.arrow.progress import Meter
from statestores.arrow.restore_mark import restore_mark
from statestores.arrow.row_batches import batches_from_changes
from statestores.arrow.snapshots.reader import Snapshot
from statestores.begun_partitions import refuse_gone
from statestores.changelog import changelog_partition
from statestores.engine_creation import refuse_unnamed
from statestores.errors import StateStoreError, StorageError, StoreCorruptedError, StoreLockedError
from statestores.files.durable_json import ENGINE_FILE
from statestores.opening import backend_of
from statestores.reading.locations import Partition, has_segments
from statestores.reading.partition_reader import PartitionReader
from statestores.reading.unfinished_imports import refuse_unimported
from statestores.registry import load_recorded_backend
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.self_description import check_description
from statestores.semantics.rows.layout import TRUNCATING_ROW
from statestores.spi.durability import Durability
from statestores.spi.engine import Engine
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import StateStore
from statestores.staging.unfinished_write import check_has_write
from statestores.staging.write_intent import WriteIntent, end_for_readers, read_intent
from statestores.verification.engine_rows import examine_rows
from statestores.verification.files import (
    LogRange,
    check_changelog,
    check_snapshots,
    unless_removed,
)
from statestores.verification.findings import (
    RESTORE_INTERRUPTED,
    TRUNCATION_INTERRUPTED,
    Finding,
    Status,
)
from statestores.verification.placement import check_placement
from statestores.verification.replayed_content import difference_from_log, judged_for


def check_partition(
    partition: Partition,
    options: Mapping[str, object] | None,
    *,
    with_engine: bool,
    meter: Meter,
) -> Iterator[Finding]:
    """Check *partition*; yield each finding as it is made."""
    hindrance = _hindrance(partition)
    if hindrance is not None:
        yield hindrance
        return
    specification = partition.specification
    held: LogRange | None = None
    kind = None if specification is None else specification.kind
    if partition.has_changelog:
        finding, held = _check_log(partition, kind)
        yield finding
        held = None if held is None else _counted(partition, held)
    snapshots = []
    for finding, snapshot in check_snapshots(partition, held):
        yield finding
        if snapshot is not None:
            snapshots.append(snapshot)
    yield from _check_presence(partition, snapshots)
    if held is not None and specification is not None and partition.number is not None:
        own = changelog_partition(specification.name, partition.number)
        logged = _Logged(
            partition,
            specification,
            held,
            [each for each in snapshots if each.manifest.partition == own],
        )
        for snapshot in logged.snapshots:
            yield logged.check_snapshot(snapshot)
        yield from logged.check_placement()
    else:
        logged = None
    try:
        backend = backend_of(partition.home)
    except StateStoreError as error:
        yield Finding("engine", partition.home, Status.DAMAGED, str(error), error)
        return
    if backend is None:
        yield from _check_unnamed(partition)
        return
    if not with_engine:
        yield Finding("engine", partition.engine, Status.SKIPPED, "not wanted (--no-engine)")
        return
    yield from _check_engine(partition, backend, options, logged, meter)


def _check_unnamed(partition: Partition) -> Iterator[Finding]:
    """Say that an engine lies there of which nothing says whose it is (LAY-29)."""
    try:
        refuse_unnamed(partition.home)
    except StateStoreError as error:
        yield Finding("engine", partition.engine, Status.DAMAGED, str(error), error)


def _hindrance(partition: Partition) -> Finding | None:
    """Return why *partition* cannot be checked: it is still to be imported, or not to be read."""
    path = partition.directory.changelog
    try:
        has_segments(path)
    except StorageError as error:
        return Finding("changelog", path, Status.NOT_CHECKED, str(error), error)
    if partition.root is None or partition.number is None:
        return None
    try:
        refuse_unimported(partition.path.parent, partition.number)
    except StateStoreError as error:
        return Finding("partition", partition.path, Status.DAMAGED, str(error), error)
    return None


def _check_log(partition: Partition, kind: str | None) -> tuple[Finding, LogRange | None]:
    """Read the changelog, which is to be as long as the last staged write has left it (LAY-39)."""
    path = partition.directory.changelog
    left = _last_write(partition)  # before the changelog, which may go on meanwhile
    finding, held = check_changelog(path, kind, partition.logged)
    if held is None or partition.number is None:
        return finding, held
    try:
        check_has_write(partition.path.parent, left, {partition.number: held.end_offset})
    except StoreCorruptedError as error:
        return Finding("changelog", path, Status.DAMAGED, str(error), error), None
    return finding, held


def _last_write(partition: Partition) -> WriteIntent | None:
    """Return the last staged write of the store; ``None`` without one, or outside a state root."""
    if partition.root is None:
        return None
    try:
        return read_intent(partition.path.parent)
    except StateStoreError:
        return None  # the check of the store says so


def _counted(partition: Partition, held: LogRange) -> LogRange:
    """Return what the changelog of *partition* has *held*, up to where readers count it.

    They write snapshots of what is committed, also before its changelog has it.
    """
    if partition.root is None or partition.number is None:
        return held
    try:
        end = end_for_readers(partition.path.parent, partition.number, held.end_offset)
    except StateStoreError:
        return held  # the check of the store says so
    return replace(held, end_offset=end)


def _check_engine(
    partition: Partition,
    backend: str,
    options: Mapping[str, object] | None,
    logged: "_Logged | None",
    meter: Meter,
) -> Iterator[Finding]:
    """Open the engine, check its rows, and compare what they mean with the changelog."""
    path = partition.engine
    if not path.is_dir():  # opening would make a new one
        yield Finding("engine", path, Status.DAMAGED, "the engine's directory is gone")
        return
    try:
        engine = load_recorded_backend(backend, partition.home / ENGINE_FILE).open(
            str(path), options
        )
    except StoreLockedError as error:
        yield Finding("engine", path, Status.NOT_CHECKED, str(error), error)
        return
    except StateStoreError as error:
        yield Finding("engine", path, Status.DAMAGED, str(error), error)
        return
    with engine:
        try:
            yield from _check_open_engine(partition, engine, logged, meter)
        except StateStoreError as error:
            yield Finding("engine", path, Status.DAMAGED, str(error), error)


def _check_open_engine(
    partition: Partition, engine: Engine, logged: "_Logged | None", meter: Meter
) -> Iterator[Finding]:
    path = partition.engine
    examined = examine_rows(engine, meter)
    if examined is None:
        lost = engine.capabilities.durable_commit  # see `statestores.opening`
        words = "; its files were removed or emptied" if lost else ""
        status = Status.DAMAGED if lost else Status.OK
        yield Finding("engine", path, status, f"opened by {engine.name!r}; it is empty{words}")
        return
    if partition.specification is not None:
        check_description(
            examined.specification.describe(),
            partition.specification,
            partition.specification.changeable,  # from the next opening on
        )
    if engine.get(TRUNCATING_ROW) is not None:
        yield Finding("rows", path, Status.SKIPPED, TRUNCATION_INTERRUPTED)
        return
    if examined.problem_count:
        words = "; ".join(examined.problems)
        more = examined.problem_count - len(examined.problems)
        words += f"; and {more} more" if more else ""
        yield Finding("rows", path, Status.DAMAGED, words)
        return  # the store could not be trusted to read them
    words = f"opened by {engine.name!r}, {examined.rows:,} rows, all well-formed"
    yield Finding("rows", path, Status.OK, words)
    with open_on_engine(
        engine, examined.specification, durability=Durability.PROCESS_CRASH
    ) as store:
        if restore_mark(store.specification) in store.committed_offsets():
            yield Finding("content", path, Status.SKIPPED, RESTORE_INTERRUPTED)
        elif logged is not None:
            yield logged.check_store(store, path)
        elif partition.root is not None and partition.number is not None:
            own = changelog_partition(store.name, partition.number)
            if not partition.has_changelog and store.committed_offset(own) is not None:
                yield _without_changelog(partition, "the engine")
            with closing(store.committed_content().changes) as changes:
                yield from check_placement(
                    batches_from_changes(store.specification.kind, changes),
                    path,
                    partition.root,
                    store.name,
                    partition.number,
                )


def _check_presence(partition: Partition, snapshots: Iterable[Snapshot]) -> Iterator[Finding]:
    """Say that the changelog is gone if it was begun, or one of *snapshots* has come from it."""
    specification, number = partition.specification, partition.number
    if partition.has_changelog or specification is None or number is None:
        return
    try:
        refuse_gone(partition.directory)
    except StorageError as error:  # it may be there
        path = partition.directory.changelog
        yield Finding("changelog", path, Status.NOT_CHECKED, str(error), error)
        return
    except StateStoreError as error:
        yield Finding("changelog", partition.directory.changelog, Status.DAMAGED, str(error), error)
        return
    own = changelog_partition(specification.name, number)
    if any(each.manifest.partition == own for each in snapshots):
        yield _without_changelog(partition, "a snapshot")


def _without_changelog(partition: Partition, witness: str) -> Finding:
    """Say that there was a changelog, as *witness* shows, and that there is none (LGS-8)."""
    words = (
        f"the changelog is gone, and {witness} has come from one; put it back, for the store is "
        "not opened without it, or export what is left and import it into a new state root"
    )
    return Finding("changelog", partition.directory.changelog, Status.DAMAGED, words)


class _Logged:
    """A partition whose changelog can be read, and what it gives."""

    def __init__(
        self,
        partition: Partition,
        specification: StoreSpecification[Any, Any],
        held: LogRange,
        snapshots: list[Snapshot],
    ) -> None:
        self.snapshots = snapshots
        self._specification = specification
        self._held = held
        self._reader = PartitionReader(partition.directory, specification)
        self._log = changelog_partition(specification.name, int(partition.path.name))
        self._partition = partition

    def check_placement(self) -> Iterator[Finding]:
        """Check where the keys that readers of the files see belong."""
        partition, name = self._partition, self._specification.name
        if partition.root is None or partition.number is None:
            return
        rows = self._reader.rows(columns=["key"], typed=False)
        try:
            yield from check_placement(rows, partition.path, partition.root, name, partition.number)
        except StateStoreError as error:
            words = f"the rows cannot be read: {error}"
            yield Finding("partition", partition.path, Status.SKIPPED, words)

    def check_snapshot(self, snapshot: Snapshot) -> Finding:
        """Compare *snapshot* with the changes up to its offset, if all of them are there."""
        path, offset = snapshot.path, snapshot.offset
        older = [each for each in self.snapshots if each.offset < offset]
        basis = self._basis(offset, older)
        if isinstance(basis, str):
            return Finding("content", path, Status.SKIPPED, f"not compared: {basis}")
        try:
            difference = self._difference(
                snapshot.batches(),
                basis,
                offset,
                "the snapshot",
                "the changelog",
                judged_for(snapshot),
            )
        except StateStoreError as error:
            found = Finding("content", path, Status.DAMAGED, str(error), error)
        else:
            found = self._finding(path, difference, offset)
        return unless_removed(found, snapshot)

    def check_store(self, store: StateStore, path: Path) -> Finding:
        """Compare *store* with the changes up to its committed offset."""
        offset = store.committed_offset(self._log)
        if offset is None:
            return self._check_without_offset(store, path)
        if offset >= self._held.end_offset:
            return Finding(
                "content",
                path,
                Status.DAMAGED,
                f"the store has committed offset {offset}, and the changelog ends before "
                f"{self._held.end_offset}: the changelog has lost its end, or is another one",
            )
        basis = self._basis(offset, self.snapshots)
        if isinstance(basis, str):
            return Finding("content", path, Status.SKIPPED, f"not compared: {basis}")
        content = store.committed_content()
        with closing(content.changes) as changes:
            rows = batches_from_changes(self._specification.kind, changes)
            judged = store.specification.describe(), content.stream_time_ms
            difference = self._difference(rows, basis, offset, "the store", "the changelog", judged)
        return self._finding(path, difference, offset)

    def _check_without_offset(self, store: StateStore, path: Path) -> Finding:
        """Accept a store that has taken nothing from its changelog if it is empty."""
        with closing(store.committed_content().changes) as changes:
            if any(len(chunk) for chunk in changes):
                return Finding(
                    "content",
                    path,
                    Status.DAMAGED,
                    "the store has rows and no committed offset of its changelog, so nobody "
                    "knows which changes they reflect",
                )
        return Finding("content", path, Status.OK, "the store has nothing from its changelog yet")

    def _basis(self, offset: int, snapshots: list[Snapshot]) -> Snapshot | str | None:
        """Return the snapshot to begin with, ``None`` for the first change, or why there is none.

        A comparison rests on the changelog as far as it goes back: on all of it if possible.
        """
        held = self._held
        if offset + 1 < held.complete_from:
            return f"the changelog has been compacted beyond offset {offset}"
        if held.first_offset == 0:
            return None
        for snapshot in sorted(snapshots, key=lambda each: each.offset):
            if held.first_offset - 1 <= snapshot.offset <= offset:
                return snapshot
        return (
            f"the changelog begins at {held.first_offset}, and no snapshot that is whole reaches "
            "from there"
        )

    def _difference(
        self,
        rows: Any,
        basis: Snapshot | None,
        offset: int,
        where: str,
        by: str,
        judged: tuple[Mapping[str, str | int], int | None],
    ) -> str | None:
        if basis is not None:
            by = f"{by} after the snapshot at {basis.offset}"
        place = self._partition.directory
        return difference_from_log(
            place, self._specification, rows, basis, offset, where, by, judged=judged
        )

    def _finding(self, path: Path, difference: str | None, offset: int) -> Finding:
        if difference is not None:
            return Finding("content", path, Status.DAMAGED, difference)
        behind = self._held.end_offset - 1 - offset
        words = f"equals its changelog up to offset {offset}"
        if behind:
            words += f", which goes on for {behind:,}"
        return Finding("content", path, Status.OK, words)
