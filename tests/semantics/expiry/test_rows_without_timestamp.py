"""Rows without a timestamp beside expiring ones: they stay, and the others go.

Small edits of the sweep were noticed by no test: such a row counted as an old one, as never being
committed, or kept what came with it from being remembered.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidArgumentError, StoreClosedError
from statestores.spi.records import Changes

_STEP_MS = 20
_END_MS = 8_000
_UNDATED_KEYS = 15


def _rows(store: Any) -> int:
    return sum(1 for _ in store._engine.scan(b"", None))


@pytest.mark.spec("TTL-1", "TTL-7", "TTL-8")
@pytest.mark.parametrize("value", [b"x", b""])
@pytest.mark.parametrize("replays", [True, False])
def test_rows_without_a_timestamp_stay_and_hold_nothing_back(
    value: bytes, tmp_path: Path, *, replays: bool
) -> None:
    """Every other commit has both sorts, replayed or put; each of the others is swept in time."""
    specification = ss.TimestampedKeyValue("s", ttl_ms=100)
    with ss.open_store(tmp_path / "s", specification, backend="memory") as store:
        for time_ms in range(0, _END_MS, _STEP_MS):
            undated = b"u%d" % (time_ms // _STEP_MS % _UNDATED_KEYS)
            keys = [b"d%d" % time_ms, undated]
            if replays:
                store.replay(Changes(keys, [b"v", value], timestamps_ms=[time_ms, None]))
            else:
                store.replay(Changes([undated], [value], timestamps_ms=[None]))
                store.commit({})
                store.put(keys[0], b"v", time_ms)
            store.commit({})
            store.put(b"p%d" % time_ms, b"v", time_ms + 1)
            store.commit({})
        living = dict(store.range())

        assert sum(each.timestamp_ms is None for each in living.values()) == _UNDATED_KEYS
        assert len(living) == _UNDATED_KEYS + 2 * 100 // _STEP_MS
        assert _rows(store) < 3 * len(living) + 64


@pytest.mark.spec("TTL-1", "TTL-7")
@pytest.mark.parametrize("reopens", [True, False])
def test_a_row_that_has_lost_its_timestamp_is_not_swept(tmp_path: Path, *, reopens: bool) -> None:
    """Neither by what the sweep remembers of its key, nor when it walks over the row."""
    specification = ss.TimestampedKeyValue("s", ttl_ms=100)
    undated = [b"u%d" % number for number in range(_UNDATED_KEYS)]

    def opened() -> Any:
        return ss.open_store(
            tmp_path / "s",
            specification,
            backend="sqlite",
            durability=ss.Durability.PROCESS_CRASH,
        )

    store = opened()
    for time_ms in range(10, 400, 10):  # until the sweep has seen every row, and remembers
        store.put_many(undated, [b"v"] * _UNDATED_KEYS, [time_ms] * _UNDATED_KEYS)
        store.commit({})
    store.replay(Changes(undated, [b"v"] * _UNDATED_KEYS, timestamps_ms=[None] * _UNDATED_KEYS))
    store.commit({})
    if reopens:
        store.close()
        store = opened()
    for time_ms in range(1_000, 1_400, 10):
        store.put_many([b"d%d" % time_ms, b"e"], [b"v", b"v"], [time_ms, time_ms])
        store.commit({})
    found = store.get_many(undated)
    store.close()

    assert [each and each.timestamp_ms for each in found] == [None] * _UNDATED_KEYS
    assert None not in found


@pytest.mark.spec("VRS-14", "VRS-5")
def test_a_late_put_before_a_deletion_leaves_no_row_behind(tmp_path: Path) -> None:
    """The version, the deletion that ended it, and its marker are gone when they have expired."""
    specification = ss.Versioned("s", history_retention_ms=100)
    with ss.open_store(tmp_path / "s", specification, backend="memory") as store:
        store.put(b"k", b"v", 10)
        store.delete(b"k", 20)
        store.commit({})
        store.put(b"k", b"w", 5)
        store.commit({})
        for time_ms in range(1_000, 60_000, 1_000):
            store.put(b"other", b"x", time_ms)
            store.commit({})
        rows: Any = store

        assert [key for key, _ in rows._engine.scan(b"", None) if b"k" in key[1:2]] == []


@pytest.mark.spec("COM-15")
def test_a_closed_timestamped_store_says_so_without_a_key(tmp_path: Path) -> None:
    """Also where there is nothing to look up."""
    store = ss.open_store(tmp_path / "s", ss.TimestampedKeyValue("s"), backend="memory")
    store.put(b"a", b"b", 1)
    store.commit({})
    store.close()

    with pytest.raises(StoreClosedError):
        store.get_many([])
    with pytest.raises(StoreClosedError):
        store.pending_changes()


@pytest.mark.spec("COM-34")
@pytest.mark.parametrize("column", ["keys", "values", "times_ms", "sequences"])
def test_a_replay_of_duplicates_with_a_short_column_takes_nothing(
    column: str, tmp_path: Path
) -> None:
    """Whichever column it is, the sequences included."""
    specification = ss.Window("s", retention_ms=1_000, window_size_ms=10, retain_duplicates=True)
    with ss.open_store(tmp_path / "s", specification, backend="memory") as store:
        store.put(b"k", b"1", 0)
        store.put(b"k", b"2", 5)
        changes = store.pending_changes()
        store.rollback()
        short: dict[str, Any] = {column: list(getattr(changes, column))[:1]}
        with pytest.raises(InvalidArgumentError):
            store.replay(replace(changes, **short))

        assert list(store.fetch_all()) == []
        assert not store.has_pending_writes
