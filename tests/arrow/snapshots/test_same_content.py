"""Whether two snapshots hold the same: of one commit of one store, row by row, but what expired."""

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.arrow import Snapshot, read_snapshot, write_snapshot
from statestores.arrow.snapshots.files import LocalFiles
from statestores.arrow.snapshots.same_content import hold_the_same
from statestores.serdes.rows import row

LOG = ss.TopicPartition("counts-changelog", 0)
PLAIN = ss.KeyValue("counts")
ROWS = 2_500
"""More than are compared at once."""

Row = tuple[Any, ...]


def _snapshot(
    path: Path, specification: Any, rows: Iterable[Row], offset: int = 1, **options: Any
) -> Snapshot:
    """Return a snapshot of a store of *specification* that has *rows*."""
    with ss.open_store(path / "store", specification, backend="memory") as store:
        for each in rows:
            store.put(*each)
        store.commit({LOG: offset})
        return read_snapshot(write_snapshot(store, path / "snapshots", **options).path)


def _as_if(snapshot: Snapshot, **changes: Any) -> Snapshot:
    """Return *snapshot* with another manifest."""
    manifest = replace(snapshot.manifest, **changes)
    return Snapshot(LocalFiles(snapshot.path), manifest)


def _numbered(changed: int | None = None, count: int = ROWS) -> list[Row]:
    return [(b"%04d" % n, b"x" if n == changed else b"v") for n in range(count)]


@pytest.fixture
def one(tmp_path: Path) -> Snapshot:
    return _snapshot(tmp_path / "one", PLAIN, _numbered())


@pytest.mark.spec("SNP-3")
def test_it_does_not_matter_how_rows_are_cut(one: Snapshot, tmp_path: Path) -> None:
    """Into batches, and into files."""
    other = _snapshot(tmp_path / "other", PLAIN, _numbered(), batch_rows=70, rows_per_file=700)

    assert len(other.manifest.files) > 1
    assert hold_the_same(one, other)
    assert hold_the_same(other, one)


@pytest.mark.spec("SNP-3")
@pytest.mark.parametrize(
    "rows",
    [_numbered(0), _numbered(ROWS - 1), _numbered(count=2_048), _numbered(count=0)],
    ids=["first", "last", "fewer", "none"],
)
def test_each_row_counts(one: Snapshot, tmp_path: Path, rows: list[Row]) -> None:
    """The first one, the last one, and those that only one of them has."""
    other = _snapshot(tmp_path / "other", PLAIN, rows)

    assert not hold_the_same(one, other)
    assert not hold_the_same(other, one)


@pytest.mark.spec("SNP-3")
def test_what_goes_with_the_rows_counts(one: Snapshot, tmp_path: Path) -> None:
    """Offsets, position, stream time, and what store it is; not when it was written."""
    manifest = one.manifest
    for changes in (
        {"offsets": {LOG: 1, ss.TopicPartition("other", 0): 1}},
        {"position": ss.Position({ss.TopicPartition("words", 0): 1})},
        {"stream_time_ms": 1},
        {"specification": {**manifest.specification, "name": "others"}},
    ):
        assert not hold_the_same(one, _as_if(one, **changes))
        assert not hold_the_same(_as_if(one, **changes), one)
    assert hold_the_same(one, _as_if(one, created_at_ms=0, library_version="0.0.1"))


@pytest.mark.spec("SNP-3")
def test_a_serde_that_nobody_here_knows_is_the_same_as_itself(one: Snapshot) -> None:
    """Its name says so; of another one nothing is known."""
    unknown = _as_if(one, specification={**one.manifest.specification, "value": "unheard-of"})

    assert hold_the_same(unknown, unknown)
    assert not hold_the_same(one, unknown)


@pytest.mark.spec("SNP-3", "SRD-40")
def test_a_later_schema_is_the_same_store_and_an_earlier_one_is_not(tmp_path: Path) -> None:
    """What reads the rows of before goes on with them."""
    old, new = (
        _snapshot(tmp_path / str(number), ss.KeyValue("counts", value=row(fields)), [])
        for number, fields in enumerate(("a: int32", "a: int32, b: string"))
    )

    assert hold_the_same(old, new)
    assert not hold_the_same(new, old)


def _stamped(ttl_ms: int, clock: str = "event") -> ss.TimestampedKeyValue[bytes, bytes]:
    return ss.TimestampedKeyValue("counts", ttl_ms=ttl_ms, ttl_clock=clock)


@pytest.mark.spec("SNP-3", "TTL-10")
def test_what_has_expired_for_one_of_them_counts_for_neither(tmp_path: Path) -> None:
    """By the shorter of two times to live, of which either may be the later one."""
    last = (b"z", b"v", 100)
    short = _snapshot(tmp_path / "short", _stamped(5), [last])
    for time_ms, same in ((95, True), (96, False)):
        long = _snapshot(tmp_path / f"long-{time_ms}", _stamped(50), [(b"a", b"v", time_ms), last])

        assert hold_the_same(short, long) == same
        assert hold_the_same(long, short) == same


@pytest.mark.spec("SNP-3", "TTL-4")
def test_it_is_never_earlier_than_when_one_of_them_was_written(tmp_path: Path) -> None:
    """The clock of a machine may be behind that of the writer."""
    wall = _stamped(10, "wall")
    soon = time.time_ns() // 1_000_000 + 3_600_000
    rows = [(b"z", b"v", soon + 60_000)]
    one = _snapshot(tmp_path / "one", wall, [(b"a", b"v", soon), *rows])
    other = _snapshot(tmp_path / "other", wall, rows)
    later = _as_if(other, created_at_ms=soon + 10)

    assert not hold_the_same(one, other)
    assert hold_the_same(one, later)
    assert hold_the_same(later, one)
    assert not hold_the_same(one, _as_if(other, created_at_ms=soon + 9))
