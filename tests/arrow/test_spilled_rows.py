"""Rows of changes that are merged from several runs, and how little of them is in memory."""

from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.arrow.rows import tail as tails
from statestores.arrow.rows.aligned import aligned
from statestores.arrow.rows.key_value import KeyValueTail, TimestampedTail
from statestores.arrow.rows.kinds import tail_of
from statestores.arrow.rows.spilled_runs import SpilledRuns
from statestores.arrow.rows.tail import Tail
from statestores.arrow.rows.versioned import VersionedTail
from statestores.arrow.schemas import KEY_VALUE_ROWS, TIMESTAMPED_ROWS, VERSIONED_ROWS
from statestores.errors import StorageError, UnsupportedFormatError
from statestores.spi import TimestampedKeyValue, TtlClock

_KEYS = st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"ab", b"b", b"\xff"])
_MEBIBYTE = 1 << 20

Parts = list[list[bytes]]


def _keys(keys: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(keys, pa.large_binary())})


def _listed(step: list[list[pa.RecordBatch]]) -> Parts:
    """Return the keys of one step, of each stream."""
    return [list(chain.from_iterable(b["key"].to_pylist() for b in of_one)) for of_one in step]


@st.composite
def _streams(draw: st.DrawFn) -> list[Parts]:
    """Draw streams in key order, each in batches of any size, empty ones and equal keys too."""
    streams = []
    for _ in range(draw(st.integers(0, 4))):
        keys = sorted(draw(st.lists(_KEYS, max_size=12)))
        cuts = sorted(draw(st.lists(st.integers(0, len(keys)), max_size=4)))
        borders = pairwise([0, *cuts, len(keys)])
        streams.append([keys[start:stop] for start, stop in borders])
    return streams


@given(streams=_streams())
def test_steps_have_all_rows_and_no_key_in_two_of_them(streams: list[Parts]) -> None:
    """Each stream's rows in their order; whoever merges a step needs no other rows."""
    steps = [_listed(step) for step in aligned([map(_keys, batches) for batches in streams])]

    for number, batches in enumerate(streams):
        assert [key for step in steps for key in step[number]] == list(chain(*batches))
    keys = [sorted(set(chain(*step))) for step in steps]
    assert all(keys)
    assert all(before[-1] < after[0] for before, after in pairwise(keys))


def test_about_a_batch_of_each_stream_is_in_memory() -> None:
    """However many there are: a step comes when its rows are known, and not at the end."""
    given_out = 0
    ahead = []

    def batches(size: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, 1_000, size):
            ahead.append(start + size - given_out)
            yield _keys([b"%04d" % key for key in range(start, start + size)])

    for step in aligned([batches(10), batches(100)]):
        given_out += len(_listed(step)[0])

    assert given_out == 1_000
    assert max(ahead) <= 2 * 100


def test_a_key_that_goes_on_in_the_next_batch_holds_up_its_own_rows_alone() -> None:
    """Each batch ends with the key that the next one begins with, and one at a time is read.

    Mutants held one batch more, or read each stream to its end.
    """
    given_out = 0
    ahead = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            ahead.append(2 * number - given_out)
            yield _keys([b"%03d" % number, b"%03d" % (number + 1)])

    for step in aligned([batches()]):
        given_out += len(_listed(step)[0])

    assert given_out == 200
    assert max(ahead) == 1


def _run_of(values: list[bytes]) -> pa.RecordBatch:
    columns = [[b"%03d" % number for number in range(len(values))], values]
    return pa.record_batch(
        [pa.array(each, pa.large_binary()) for each in columns], ["key", "value"]
    )


@pytest.mark.parametrize(
    ("value", "rows", "of_each"),
    [(b"v" * 2 * _MEBIBYTE, 3, 1), (b"v" * (_MEBIBYTE // 4), 8, 3), (b"", 3, 3), (b"", 0, 0)],
    ids=["large values", "four to a mebibyte", "small values", "none"],
)
def test_a_piece_of_a_run_is_about_a_mebibyte(
    tmp_path: Path, value: bytes, rows: int, of_each: int
) -> None:
    """One of each run is held at a time: a row that is more than that comes alone."""
    folded = _run_of([value] * rows)

    pieces = list(SpilledRuns(tmp_path, 1).pieces(folded))

    assert [piece.num_rows for piece in pieces][: len(pieces) - 1] == [of_each] * (len(pieces) - 1)
    assert max((piece.num_rows for piece in pieces), default=0) == of_each
    assert sum(piece.num_rows for piece in pieces) == rows


def test_what_is_less_than_half_of_the_memory_is_held(tmp_path: Path) -> None:
    """A small run would cost a file, and a reader of it, for little."""
    folded = _run_of([b"v" * 100] * 10)
    small = SpilledRuns(tmp_path, 4 * folded.nbytes)
    large = SpilledRuns(tmp_path, folded.nbytes)

    assert small.take(folded) is folded
    assert not small.are_there
    assert large.take(folded).num_rows == 0
    assert large.take(folded).num_rows == 0
    assert [sum(b.num_rows for b in stream) for stream in large.streams()] == [10, 10]
    assert len(list(tmp_path.iterdir())) == 2
    large.clear()
    assert (large.are_there, list(tmp_path.iterdir())) == (False, [])


def test_exactly_what_is_allowed_is_held_and_exactly_half_of_it_is_a_run(tmp_path: Path) -> None:
    """More than the one is too much; less than the other is worth no file."""
    folded = _run_of([b"v" * 100] * 10)
    runs = SpilledRuns(tmp_path, 2 * folded.nbytes)

    assert [runs.is_full(2 * folded.nbytes + more) for more in (0, 1)] == [False, True]
    assert runs.take(folded).num_rows == 0


def test_what_is_spilled_is_in_files_and_gone_after_a_clear(tmp_path: Path) -> None:
    """A clear of the log forgets what was spilled as well: its rows had come back."""
    tail = KeyValueTail()
    tail.spill(SpilledRuns(tmp_path, 1))
    tail.add(_batch([(b"a", b"1", 0), (b"b", b"1", 0)], timed=False))
    tail.add(_batch([(b"a", b"2", 0)], timed=False))

    assert len(list(tmp_path.iterdir())) == 2
    assert tail.folded().num_rows == 0
    assert _pylist(tail.changes(), None) == [
        {"key": b"a", "value": b"2"},
        {"key": b"b", "value": b"1"},
    ]
    tail.clear()
    assert list(tmp_path.iterdir()) == []
    tail.add(_batch([(b"c", b"3", 0)], timed=False))
    snapshot = [_rows_of_none(KEY_VALUE_ROWS)]
    assert _pylist(tail.merge(snapshot), KEY_VALUE_ROWS) == [{"key": b"c", "value": b"3"}]


def test_a_run_that_cannot_be_written_read_or_removed_is_named(tmp_path: Path) -> None:
    """With what was done and where: the disk is full, or somebody has tidied up."""
    folded = _run_of([b"v" * 100] * 10)
    with pytest.raises(StorageError, match=r"cannot write '.*gone.run-0\.arrow'"):
        SpilledRuns(tmp_path / "gone", 1).take(folded)
    runs = SpilledRuns(tmp_path, 1)
    runs.take(folded)
    (tmp_path / "run-0.arrow").unlink()
    with pytest.raises(StorageError, match=r"cannot read '.*run-0\.arrow'"):
        next(runs.streams()[0])
    with pytest.raises(StorageError, match=r"cannot remove '.*run-0\.arrow'"):
        runs.clear()


class CountedFolds(KeyValueTail):
    """A tail that counts how often it folds."""

    folds = 0

    def _folded_changes(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        self.folds += 1
        return super()._folded_changes(changes)


def _five(number: int) -> pa.RecordBatch:
    """Return five changes of five keys, other ones for each *number*."""
    return _batch([(b"%02d-%d" % (number, each), b"v", 0) for each in range(5)], timed=False)


def test_changes_are_folded_when_they_are_many_and_more_than_the_fold_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sooner, and each fold is of few; later, and they take their memory."""
    monkeypatch.setattr(tails, "_FOLD_ROWS", 10)
    tail = CountedFolds()
    folds = []
    for number in range(8):
        tail.add(_five(number))
        folds.append(tail.folds)

    assert folds == [0, 0, 1, 1, 1, 1, 2, 2]


def test_what_waits_and_what_is_folded_are_spilled_when_both_are_too_much(tmp_path: Path) -> None:
    """Two batches that are folded and two that wait are allowed here, and no fifth one."""
    size = KeyValueTail()
    size.add(_five(0))
    size.add(_five(1))
    folded = size.folded().nbytes
    size.add(_five(2))
    tail = KeyValueTail()
    tail.spill(SpilledRuns(tmp_path, folded + 2 * size._pending_bytes))
    for number in range(4):
        tail.add(_five(number))
        if number == 1:
            assert tail.folded().num_rows == 10
        assert list(tmp_path.iterdir()) == []
    tail.add(_five(4))

    assert [each.name for each in tmp_path.iterdir()] == ["run-0.arrow"]
    assert tail.folded().num_rows == 0


def test_rows_behind_the_last_change_of_a_run_are_given_as_they_are(tmp_path: Path) -> None:
    """What changed an earlier key is over, also where a change waits that is in no run."""
    tail = KeyValueTail()
    tail.spill(SpilledRuns(tmp_path, 400))
    tail.add(_batch([(b"b", b"x" * 500, 0)], timed=False))
    tail.add(_batch([(b"a", b"new", 0)], timed=False))
    assert len(list(tmp_path.iterdir())) == 1
    assert [row["key"] for row in _pylist(tail.changes(), None)] == [b"a", b"b"]
    tail.add(_batch([(b"d", b"new", 0)], timed=False))
    assert [row["key"] for row in _pylist(tail.changes(), None)] == [b"a", b"b", b"d"]
    keys = [b"a", b"b", b"c", b"e", b"f", b"g"]
    snapshot = [pa.record_batch([[key], [b"old"]], schema=KEY_VALUE_ROWS) for key in keys]

    assert {row["key"]: row["value"][:3] for row in _pylist(tail.merge(snapshot), None)} == {
        b"a": b"new",
        b"b": b"xxx",
        b"c": b"old",
        b"d": b"new",
        b"e": b"old",
        b"f": b"old",
        b"g": b"old",
    }
    assert len(_pylist(tail.merge(snapshot), None)) == 7


def test_rows_come_while_the_snapshot_is_read_where_each_batch_ends_with_a_changed_key() -> None:
    """That key's rows may go on in the next batch, and wait; all others do not."""
    given_out = 0
    ahead = []

    def snapshot() -> Iterator[pa.RecordBatch]:
        for number in range(0, 100, 2):
            ahead.append(number - given_out)
            keys = [b"%03d" % number, b"%03d" % (number + 1)]
            yield pa.record_batch([keys, [b"old"] * 2], schema=KEY_VALUE_ROWS)

    tail = KeyValueTail()
    tail.add(_batch([(b"%03d" % number, b"new", 0) for number in range(100)], timed=False))
    for batch in tail.merge(snapshot()):
        given_out += batch.num_rows

    assert given_out == 100
    assert max(ahead) <= 4


_CHANGES = st.lists(st.tuples(_KEYS, st.none() | st.binary(max_size=30), st.integers(0, 30)))


def _batch(changes: list[tuple[bytes, bytes | None, int]], *, timed: bool) -> pa.RecordBatch:
    keys, values, times = zip(*changes, strict=True) if changes else ((), (), ())
    columns = {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
    return pa.record_batch(columns | ({"timestamp": pa.array(times, pa.int64())} if timed else {}))


_EXPIRING = TimestampedKeyValue("s", ttl_ms=9, ttl_clock=TtlClock.EVENT)
_TAILS: dict[str, tuple[Callable[[], Tail], pa.Schema, bool]] = {
    "key-value": (KeyValueTail, KEY_VALUE_ROWS, False),
    "timestamped": (lambda: TimestampedTail(_EXPIRING), TIMESTAMPED_ROWS, True),
    "versioned": (lambda: VersionedTail(9), VERSIONED_ROWS, True),
}


@pytest.mark.parametrize("kind", _TAILS)
@given(
    before=_CHANGES,
    after=st.lists(_CHANGES, max_size=6),
    limit=st.integers(1, 400),
    clear_at=st.none() | st.integers(0, 5),
)
def test_a_tail_that_spills_gives_what_one_in_memory_gives(
    kind: str, before: Any, after: list[Any], limit: int, clear_at: int | None
) -> None:
    """Over a snapshot and alone, however little of it may be held, and after a truncation."""
    make, schema, timed = _TAILS[kind]
    first = make()
    first.add(_batch(before, timed=timed))
    snapshot = list(first.merge([]))
    with TemporaryDirectory() as directory:
        in_memory, spilling = make(), make()
        spilling.spill(SpilledRuns(Path(directory), limit))
        for number, changes in enumerate(after):
            if number == clear_at:
                in_memory.clear()
                spilling.clear()
            for tail in (in_memory, spilling):
                tail.add(_batch(changes, timed=timed))

        assert _pylist(spilling.merge(snapshot), schema) == _pylist(
            in_memory.merge(snapshot), schema
        )
        assert _pylist(spilling.changes(), None) == _pylist(in_memory.changes(), None)


@pytest.mark.parametrize("kind", _TAILS)
@given(before=_CHANGES, after=_CHANGES, rows=st.integers(1, 3))
def test_a_snapshot_is_merged_alike_in_batches_of_any_size(
    kind: str, before: Any, after: Any, rows: int
) -> None:
    """The rows of a key that has changed may be in several batches, and some batches are empty."""
    make, schema, timed = _TAILS[kind]
    first, tail, again = make(), make(), make()
    first.add(_batch(before, timed=timed))
    whole = list(first.merge([]))
    cut = [each.slice(at, rows) for each in whole for at in range(0, each.num_rows + 1, rows)]
    cut.insert(0, _rows_of_none(schema))
    for each in (tail, again):
        each.add(_batch(after, timed=timed))

    assert _pylist(tail.merge(cut), schema) == _pylist(again.merge(whole), schema)


def _rows_of_none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def _pylist(batches: Iterator[pa.RecordBatch], schema: pa.Schema | None) -> list[Any]:
    listed = list(batches)
    assert all(schema is None or batch.schema == schema for batch in listed)
    return [row for batch in listed for row in batch.to_pylist()]


def test_the_rows_of_a_kind_that_is_not_known_are_not_merged() -> None:
    """Another author's, or that of a later release."""
    other: Any = SimpleNamespace(kind="heap")
    with pytest.raises(UnsupportedFormatError, match="rows of a heap store cannot be merged"):
        tail_of(other)
