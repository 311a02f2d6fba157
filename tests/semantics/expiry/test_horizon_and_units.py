"""Reads of what is gone, and times in another unit: neither is silent any more."""

import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidTypeError
from statestores.spi import Isolation

_NOW_US = 1_700_000_000_000_000


def _below_horizon(store: Any) -> float:
    [metric] = [each for each in store.metrics() if each.name == "reads-below-horizon-total"]
    return float(metric.value)


READS: dict[str, tuple[Any, Callable[[Any], object], list[Callable[[Any, int], object]]]] = {
    "versioned": (
        ss.Versioned("s", history_retention_ms=10),
        lambda store: (store.put(b"k", b"1", 80), store.put(b"k", b"2", 100)),
        [
            lambda store, at: store.get(b"k", at),
            lambda store, at: store.get_many([b"k"], at),
            lambda store, at: list(store.history(b"k", 0, at)),
            lambda store, at: list(store.scan_as_of(at)),
            lambda store, at: list(store.range_history(b"j", b"l", 0, at)),
        ],
    ),
    "window": (
        ss.Window("s", retention_ms=10, window_size_ms=1),
        lambda store: store.put(b"k", b"2", 100),
        [
            lambda store, at: store.fetch(b"k", at),
            lambda store, at: list(store.fetch_range(b"k", 0, at)),
        ],
    ),
    "session": (
        ss.Session("s", retention_ms=10),
        lambda store: store.put(b"k", 100, 100, b"2"),
        [lambda store, at: store.fetch_session(b"k", at, at)],
    ),
}


@pytest.mark.spec("MET-12", "MET-13")
@pytest.mark.parametrize("kind", READS)
def test_a_read_below_the_horizon_is_counted(kind: str, tmp_path: Path) -> None:
    """By the owner, with pending writes and without, and by both facades; others are not."""
    specification, fill, reads = READS[kind]
    with ss.open_store(tmp_path / "s", specification, backend="memory") as store:
        assert store.horizon_ms is None
        fill(store)
        for commits in (False, True):
            if commits:
                store.commit({})
            asked = [store, store.read_only(Isolation.READ_UNCOMMITTED)]
            asked += [store.read_only()] * commits
            for each in asked:
                assert each.horizon_ms == 90
                for read in reads:
                    before = _below_horizon(store)
                    read(each, 95)
                    assert _below_horizon(store) == before
                    read(each, 50)
                    assert _below_horizon(store) == before + 1


@pytest.mark.spec("MET-12")
def test_a_read_of_versions_at_the_horizon_is_not_below_it(tmp_path: Path) -> None:
    """The version before the latest is valid there, and found; a millisecond earlier it is not."""
    specification, fill, reads = READS["versioned"]
    with ss.open_store(tmp_path / "s", specification, backend="memory") as store:
        fill(store)
        pending = store.read_only(Isolation.READ_UNCOMMITTED)
        for reader in (store, pending):
            assert reader.get(b"k", 90) == ss.VersionedRecord(b"1", 80, 100)
        store.commit({})
        for reader in (store, pending, store.read_only()):
            assert reader.get(b"k", 90) == ss.VersionedRecord(b"1", 80, 100)
            for read in reads:
                before = _below_horizon(store)
                read(reader, 90)
                assert _below_horizon(store) == before
                read(reader, 89)
                assert _below_horizon(store) == before + 1


@pytest.mark.spec("COM-48")
def test_a_duration_or_a_moment_is_refused_with_the_number_to_write(tmp_path: Path) -> None:
    """Where milliseconds are taken; accepting both would have two spellings of one thing."""
    day, moment = timedelta(days=1), datetime(2024, 1, 1, tzinfo=UTC)
    makers: list[Callable[[], object]] = [
        lambda: ss.Versioned("s", history_retention_ms=day),  # type: ignore[arg-type]  # on purpose
        lambda: ss.TimestampedKeyValue("s", ttl_ms=day),  # type: ignore[arg-type]  # likewise
        lambda: ss.Window("s", retention_ms=day, window_size_ms=1),  # type: ignore[arg-type]  # likewise
        lambda: ss.Session("s", retention_ms=day),  # type: ignore[arg-type]  # likewise
    ]
    for make in makers:
        with pytest.raises(InvalidTypeError, match="; write 86400000, or"):
            make()
    with ss.open_store(tmp_path / "s", ss.TimestampedKeyValue("s"), backend="memory") as store:
        with pytest.raises(InvalidTypeError, match=r"moment\.timestamp"):
            store.put(b"k", b"v", moment)  # type: ignore[arg-type]  # likewise
        with pytest.raises(InvalidTypeError, match="; write 86400000, or"):
            store.put(b"k", b"v", day)  # type: ignore[arg-type]  # likewise


UNITS: dict[str, Any] = {
    "versioned": ss.Versioned("s", history_retention_ms=10),
    "timestamped": ss.TimestampedKeyValue("s"),
    "window": ss.Window("s", retention_ms=10, window_size_ms=1),
}


@pytest.mark.spec("COM-48")
@pytest.mark.parametrize("kind", UNITS)
def test_first_timestamps_in_microseconds_are_warned_of_once(kind: str, tmp_path: Path) -> None:
    """With the first commit, and in no later one; timestamps in milliseconds are not."""
    for name, factor, unit in (("us", 1, "microseconds"), ("ns", 1_000, "nanoseconds")):
        with ss.open_store(tmp_path / name, UNITS[kind], backend="memory") as store:
            store.put(b"k", b"v", _NOW_US * factor)
            with pytest.warns(UserWarning, match=unit):
                store.commit({})
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                store.put(b"k", b"v", _NOW_US * factor + 1)
                store.commit({})
    with (
        warnings.catch_warnings(),
        ss.open_store(tmp_path / "ms", UNITS[kind], backend="memory") as store,
    ):
        warnings.simplefilter("error")
        store.put(b"k", b"v", _NOW_US // 1_000)
        store.commit({})
