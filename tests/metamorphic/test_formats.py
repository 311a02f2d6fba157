"""Every way through our own formats, between any two backends, leads to the same store.

The workloads and the reads are those of the conformance suite's relations; here the changes go
through changelog files, compaction, Arrow snapshots and logged stores. Nothing says what the
content is: only that two ways to it agree.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from statestores import StateRoot
from statestores.arrow import read_snapshot, restore, write_snapshot
from statestores.changelog import (
    ChangelogOptions,
    Compression,
    FileChangelog,
    changelog_partition,
    compact,
)
from statestores.errors import MissingDriverError
from statestores.logged_store import open_logged_store
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Durability, Position, StateStore, TopicPartition
from statestores_conformance.relations import ALL_KINDS, Kind, Write
from statestores_conformance.relations.kinds import Form

INPUT = TopicPartition("input", 0)
LOG = changelog_partition("store", 0)
NOSYNC = Durability.PROCESS_CRASH

PAIRS = [
    ("memory", "rocksdb"),
    pytest.param("rocksdb", "sqlite", marks=pytest.mark.long),
    pytest.param("sqlite", "memory", marks=pytest.mark.long),
]
"""Each backend gives once and takes once."""

_EVERY_KIND = pytest.mark.parametrize("kind", ALL_KINDS.values(), ids=ALL_KINDS)
_EVERY_PAIR = pytest.mark.parametrize(("source", "target"), PAIRS)

Batches = list[list[Write]]


def few() -> settings:
    """Return settings for tests of which each example opens files: a twentieth of the profile's.

    Without shrinking, which would take minutes here; the conformance suite shrinks what is wrong
    with a store, and what is left is a few short commits.
    """
    return settings(max_examples=max(4, settings().max_examples // 20), phases=[Phase.generate])


@st.composite
def batches(draw: st.DrawFn, kind: Kind) -> Batches:
    """Draw the writes of a few commits."""
    batch = st.lists(kind.writes(), max_size=6)
    return draw(st.lists(batch, min_size=1, max_size=5))


@pytest.fixture(autouse=True)
def _drivers(request: pytest.FixtureRequest) -> None:
    """Skip a pair of which a driver is missing."""
    names = [request.getfixturevalue(name) for name in ("source", "target")]
    for name in names:
        try:
            load_backend(name)
        except MissingDriverError as error:
            pytest.skip(str(error))


@contextmanager
def opened(backend: str, path: Path, specification: Any) -> Iterator[Any]:
    """Open a store of bytes over *backend*."""
    with open_on_engine(
        load_backend(backend).open(path), specification, durability=NOSYNC
    ) as store:
        yield store


def answers(store: Any, kind: Kind) -> list[object]:
    """Return everything that *store* answers."""
    found: list[object] = []
    for read in kind.reads():
        given = getattr(store, read.method)
        if read.form is Form.ATTRIBUTE:
            found.append(given)
        elif read.form is Form.ITERATOR:
            found.append(list(given(*read.arguments)))
        else:
            found.append(given(*read.arguments))
    return found


def live(store: Any, log: FileChangelog, commits: Batches, first: int = 0) -> None:
    """Write each of *commits*, as a store with a changelog does."""
    for number, batch in enumerate(commits, first):
        for write in batch:
            getattr(store, write.method)(*write.arguments)
        position = Position({INPUT: number})
        store.advance_position(position)
        offsets = log.append(store.pending_changes(), position=position, durability=NOSYNC)
        store.commit({LOG: offsets.last})


def same(one: StateStore, other: StateStore, kind: Kind) -> None:
    """Check that two stores agree in content, offset and position."""
    assert answers(one, kind) == answers(other, kind)
    assert one.committed_offsets() == other.committed_offsets()
    assert one.position == other.position


class Directory:
    """A directory of one example, removed at its end."""

    def __enter__(self) -> Path:
        """Make it."""
        self._path = Path(tempfile.mkdtemp())
        return self._path

    def __exit__(self, *error: object) -> None:
        """Remove it."""
        shutil.rmtree(self._path)


@pytest.mark.spec("SNP-10", "LOG-2", "COM-17", "COM-29", "COM-32")
@_EVERY_PAIR
@_EVERY_KIND
def test_a_replayed_changelog_is_the_store(source: str, target: str, kind: Kind) -> None:
    """Through files of any size and compression, in any batches, once or twice."""

    @few()
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        specification = data.draw(kind.specifications())
        options = ChangelogOptions(
            segment_bytes=data.draw(st.sampled_from([1, 600, 1 << 20])),
            compression=data.draw(st.sampled_from(Compression)),
        )
        rows = data.draw(st.integers(1, 7), label="rows of a batch")
        with Directory() as root, ExitStack() as stack:
            store = stack.enter_context(opened(source, root / "live", specification))
            log = stack.enter_context(
                FileChangelog.create(root / "log", specification.kind, options)
            )
            live(store, log, data.draw(batches(kind)))
            once = stack.enter_context(opened(target, root / "once", specification))
            restore(once, changelog=log, batch_rows=rows)
            same(once, store, kind)

            assert restore(once, changelog=log).changelog_rows == 0
            twice = stack.enter_context(opened(target, root / "twice", specification))
            restore(twice, changelog=log)
            twice.clear_offsets()
            for frame in log.read():
                twice.replay(frame.changes)
            twice.commit({LOG: log.end_offset - 1})
            same(twice, store, kind)

    holds()


@pytest.mark.spec("LOG-18", "SNP-10", "COM-31")
@_EVERY_PAIR
@_EVERY_KIND
def test_a_compacted_changelog_is_the_whole_one(source: str, target: str, kind: Kind) -> None:
    """Compacted once or over and over, with a tail that is not compacted."""

    @few()
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        specification = data.draw(kind.specifications())
        retentions = {
            name: getattr(specification, name, None)
            for name in ("history_retention_ms", "retention_ms")
        }
        with Directory() as root, ExitStack() as stack:
            store = stack.enter_context(opened(source, root / "live", specification))
            log = stack.enter_context(FileChangelog.create(root / "log", specification.kind))
            for number, commits in enumerate(data.draw(st.lists(batches(kind), max_size=3))):
                live(store, log, commits, 10 * number)
                log.seal()
                compact(log, **retentions)
            live(store, log, data.draw(batches(kind)), 100)
            copy = stack.enter_context(opened(target, root / "copy", specification))
            restore(copy, changelog=log)
            same(copy, store, kind)

    holds()


@pytest.mark.spec("SNP-10", "SNP-11", "SNP-12", "COM-20")
@_EVERY_PAIR
@_EVERY_KIND
def test_snapshot_and_tail_are_the_whole_changelog(source: str, target: str, kind: Kind) -> None:
    """And a snapshot of what was restored holds the same rows, byte by byte."""

    @few()
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        specification = data.draw(kind.specifications())
        with Directory() as root, ExitStack() as stack:
            store = stack.enter_context(opened(source, root / "live", specification))
            log = stack.enter_context(FileChangelog.create(root / "log", specification.kind))
            live(store, log, data.draw(batches(kind)))
            middle = write_snapshot(store, root / "middle", batch_rows=3, rows_per_file=5)
            live(store, log, data.draw(batches(kind)), 10)
            with_snapshot = stack.enter_context(opened(target, root / "some", specification))
            report = restore(with_snapshot, snapshot=read_snapshot(middle.path), changelog=log)
            same(with_snapshot, store, kind)

            assert report.snapshot_offset == middle.offset
            whole = stack.enter_context(opened(target, root / "whole", specification))
            restore(whole, changelog=log)
            same(whole, with_snapshot, kind)
            tables = []
            for name, each in (("one", store), ("other", with_snapshot)):
                snapshot = read_snapshot(write_snapshot(each, root / name).path)
                table = pa.Table.from_batches(snapshot.batches(), snapshot.schema)
                # A deletion below the horizon is there or is not: which of the two, depends on how
                # often a vacuum came by (VRS-20).
                tables.append(table.filter(pc.is_valid(table.column("value"))))
            assert tables[0].equals(tables[1])

    holds()


@pytest.mark.spec("LGS-1", "LGS-6", "COM-29")
@_EVERY_PAIR
@_EVERY_KIND
def test_a_logged_store_is_the_store_alone(source: str, target: str, kind: Kind) -> None:
    """Reopened, and brought up in another backend with or without a snapshot."""

    @few()
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        specification = data.draw(kind.specifications())
        with Directory() as root, ExitStack() as stack:
            alone = stack.enter_context(opened("memory", root / "alone", specification))
            state = StateRoot.create(root / "state")
            state.add_store(specification, partitions=1)
            for number, batch in enumerate(data.draw(batches(kind))):
                backend = data.draw(st.sampled_from([source, target]), label="backend")
                # The engine is lost: what follows has the changelog, and at times a snapshot.
                directory = state.partition("store", 0).path
                shutil.rmtree(directory / "engine", ignore_errors=True)
                (directory / "engine.json").unlink(missing_ok=True)
                with open_logged_store(
                    state, "store", backend=backend, durability=NOSYNC
                ) as logged:
                    for write in batch:
                        getattr(logged.store, write.method)(*write.arguments)
                        getattr(alone, write.method)(*write.arguments)
                    logged.commit({INPUT: number})
                    alone.advance_position({INPUT: number})
                    alone.commit({})
                    if data.draw(st.booleans(), label="snapshot"):
                        logged.snapshot()

                    assert answers(logged.store, kind) == answers(alone, kind)
                    assert logged.position == alone.position

    holds()
