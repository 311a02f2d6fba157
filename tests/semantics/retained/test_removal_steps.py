"""The removal of expired rows by itself, against one that counts names off one by one."""

from collections.abc import Iterator
from dataclasses import astuple, replace
from random import Random
from typing import Any, NamedTuple

import pytest

from statestores.errors import StoreCorruptedError
from statestores.failpoints import arm, disarm
from statestores.registry import load_backend
from statestores.semantics.retained import progress as progress_module
from statestores.semantics.retained.name_groups import group_key, is_group, pack_names
from statestores.semantics.retained.progress import RetainedProgress, read_retained_progress
from statestores.semantics.retained.rows import RetainedRows, index_above, pack_time
from statestores.semantics.rows.layout import HISTORY, PROGRESS_ROW
from statestores.spi import Durability, Engine

LIVES = 60
ROWS = RetainedRows(has_number=True)


class Name(NamedTuple):
    """One row that expires."""

    index_key: bytes
    """Where it is named."""

    place: int
    """Its place in its group, and 0 of one that is named alone."""

    is_last: bool
    """Whether its row of the index goes with it."""

    data_key: bytes


def _fill(engine: Engine, draw: Random) -> list[Name]:
    """Give *engine* an index of rows alone and in groups, and return the names in order."""
    index: dict[bytes, tuple[bytes, list[bytes]]] = {}
    for number in range(draw.randrange(1, 30)):
        time_ms = draw.randrange(20)
        if draw.random() < 0.5:
            names = [
                ROWS.data_key(b"g%d-%d" % (number, each), draw.randrange(time_ms + 1), each)
                for each in range(draw.choice((1, 2, 3, 8)))
            ]
            index[group_key(pack_time(time_ms), number)] = pack_names(names), names
        else:
            data_key = ROWS.data_key(b"k%d" % number, time_ms, number)
            index[ROWS.index_key(data_key)] = b"", [data_key]
    engine.apply({key: packed for key, (packed, _) in index.items()}, Durability.PROCESS_CRASH)
    return [
        Name(index_key, place, place == len(index[index_key][1]) - 1, data_key)
        for index_key in sorted(index)
        for place, data_key in enumerate(index[index_key][1])
    ]


def _removed(
    names: list[Name], before: RetainedProgress, horizon_ms: int, rows: int
) -> tuple[list[bytes], RetainedProgress]:
    """Return what a commit of so many *rows* removes in addition, and how far it has come then."""
    if horizon_ms < before.floor_ms:
        return [], replace(before, owed=0)
    besides = min(before.owed, progress_module._OWED_PER_COMMIT)
    budget = (
        progress_module.REMOVALS_PER_COMMIT + progress_module.REMOVALS_PER_WRITE * rows + besides
    )
    stop = max(before.cursor, index_above(horizon_ms))
    ahead = [name for name in names if (name[:2] >= (before.cursor, before.gone))]
    due = [name for name in ahead if name.index_key < stop]
    going, staying = due[:budget], due[budget:]
    index_keys = [name.index_key for name in going if name.is_last]
    single = [name for name in going if not is_group(name.index_key)]
    ordered = [
        *[key for key in index_keys if not is_group(key)],
        *filter(is_group, index_keys),
        *[name.data_key for name in single],
        *[name.data_key for name in going if name not in single],
    ]
    if staying:
        after = replace(before, cursor=staying[0].index_key, gone=staying[0].place)
        after.owed, after.floor_ms = before.owed - besides, before.floor_ms
        return ordered, after
    after = replace(before, cursor=stop, gone=0 if stop != before.cursor else before.gone)
    later = [name for name in ahead if name.index_key >= stop]
    after.owed = 0
    after.floor_ms = int.from_bytes(later[0].index_key[1:9]) if later else 1 << 63
    return ordered, after


@pytest.fixture
def engine() -> Iterator[Engine]:
    with load_backend("memory").open("unused") as engine:
        yield engine


@pytest.mark.spec("WIN-18", "WIN-19", "SES-18", "LAY-21", "LAY-31")
def test_each_commit_removes_the_next_names_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as it may, in the order of the index; what is left begins at the cursor.

    One too many at the horizon is a row that is still visible, and one too few at a seam is a row
    that nobody ever looks for again.
    """
    monkeypatch.setattr(progress_module, "REMOVALS_PER_COMMIT", 3)
    monkeypatch.setattr(progress_module, "_OWED_PER_COMMIT", 7)
    for number in range(LIVES):
        draw = Random(number)
        with load_backend("memory").open("unused") as engine:
            names = _fill(engine, draw)
            progress = RetainedProgress(stream_time_ms=5, next_group=draw.choice((0, 9)))
            horizon_ms = -1
            for step in range(25):
                horizon_ms = min(21, horizon_ms + draw.choice((0, 0, 1, 1, 5)))
                batch: Any = {b"\x00%d" % each: b"put" for each in range(draw.choice((0, 0, 1, 2)))}
                if draw.random() < 0.2:
                    progress.owed = draw.choice((1, 7, 8, 20))
                if draw.random() < 0.1:
                    progress.floor_ms = 0  # as where a store was opened
                removed, expected = _removed(names, progress, horizon_ms, len(batch))
                given = list(batch)
                progress.remove_expired(engine, ROWS, batch, horizon_ms)

                where = f"step {step} of life {number}"
                assert list(batch) == given + removed, where
                assert {batch[key] for key in removed} <= {None}, where
                assert astuple(progress) == astuple(expected), where
                engine.apply(batch, Durability.PROCESS_CRASH)
                gone = {name for name in names if name[:2] < (progress.cursor, progress.gone)}
                assert not [name for name in gone if int.from_bytes(name[0][1:9]) > horizon_ms]


@pytest.mark.spec("LAY-21")
def test_the_stored_progress_is_as_long_as_it_must_be(engine: Engine) -> None:
    """Without groups it is that of format 1; the numbers are in their places."""
    cursor = HISTORY + b"cursor"
    plain = RetainedProgress(5, 7, cursor)
    grouped = RetainedProgress(5, 7, cursor, 11, 13)

    assert plain.pack() == (5).to_bytes(8) + (7).to_bytes(8) + cursor
    assert grouped.pack() == plain.pack()[:16] + (11).to_bytes(8) + (13).to_bytes(4) + cursor
    assert RetainedProgress().pack() == b"\xff" * 8 + bytes(8) + HISTORY
    for each in (plain, grouped):
        engine.apply({PROGRESS_ROW: each.pack()}, Durability.PROCESS_CRASH)
        found = read_retained_progress(engine)
        assert astuple(found) == astuple(each)
        assert (found.floor_ms, found.owed) == (0, 0)


@pytest.mark.spec("LAY-21")
def test_a_progress_that_is_cut_off_is_damage(engine: Engine) -> None:
    """In its first numbers, or in those that follow where there are groups."""
    for row in (bytes(15), bytes(16), bytes(27)):
        engine.apply({PROGRESS_ROW: row}, Durability.PROCESS_CRASH)
        with pytest.raises(StoreCorruptedError, match=r"the stored progress b.* is malformed"):
            read_retained_progress(engine)


def test_a_removal_can_be_stopped_once_it_has_chosen(engine: Engine) -> None:
    """Its failpoint is reached where something may have expired, and the batch is whole by then."""
    data_key = ROWS.data_key(b"k", 5, 5)
    index_key = ROWS.index_key(data_key)
    engine.apply({index_key: b""}, Durability.PROCESS_CRASH)
    batch: Any = {}
    seen: list[Any] = []
    arm("vacuum.swept", lambda: seen.append(dict(batch)))
    try:
        RetainedProgress(floor_ms=5).remove_expired(engine, ROWS, batch, 4)
        assert seen == []
        RetainedProgress(floor_ms=5).remove_expired(engine, ROWS, batch, 5)
    finally:
        disarm()

    assert seen == [{index_key: None, data_key: None}]
