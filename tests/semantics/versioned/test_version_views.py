"""Rows of versions, as views read them, beside a model: at a time, in ranges, as a history."""

from random import Random

import pytest
from version_cases import KEYS, TIMES, CountedReads, Record, Versions, cases, ends_of, rows_of

import statestores as ss
from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows import content_chunks
from statestores.semantics.rows.layout import DATA, END, HISTORY
from statestores.semantics.versioned import content
from statestores.semantics.versioned import view as view_of_versions
from statestores.semantics.versioned.rows import (
    Version,
    Waiting,
    data_key,
    history_key,
    latest_row,
)
from statestores.semantics.versioned.view import VersionedView
from statestores.spi.durability import Durability


def valid_at(versions: Versions, time_ms: int | None, horizon_ms: int) -> Record | None:
    """Return what a model finds."""
    for start, value, end in reversed(ends_of(versions)):
        if time_ms is None or start <= time_ms:
            if value is None or not (end is None or time_ms is None or horizon_ms <= time_ms < end):
                return None
            return ss.VersionedRecord(value, start, end)
    return None


def history_of(
    versions: Versions, first_ms: int | None, last_ms: int | None, horizon_ms: int
) -> list[Record]:
    """Return the history that a model has."""
    low = max(first_ms or 0, horizon_ms)
    return [
        ss.VersionedRecord(value, start, end)
        for start, value, end in ends_of(versions)
        if value is not None
        and (last_ms is None or start <= last_ms)
        and (end is None or (end > low and (last_ms is None or last_ms >= horizon_ms)))
    ]


@pytest.mark.spec("VRS-2", "VRS-4", "VRS-9")
def test_a_view_gives_what_the_model_has_at_every_time() -> None:
    """By key, of many keys, as a history and as a range, in both directions; and it counts."""
    for seed, case in enumerate(cases()):
        view = VersionedView(
            case.engine, case.waiting, case.stream_time_ms, case.retention_ms, case.cached
        )
        horizon = case.horizon_ms
        assert (view.reader, view.pending) == (case.engine, case.waiting)
        assert view.latest_rows(KEYS) == case.engine.get_many([DATA + key for key in KEYS])
        below = 0
        for time_ms in (None, *TIMES[seed % 3 :: 3]):
            found = {key: valid_at(case.merged.get(key, {}), time_ms, horizon) for key in KEYS}
            by_key = {key: view.get(key, time_ms) for key in KEYS}
            assert by_key == found
            hidden = 0
            if time_ms is not None and time_ms < horizon:
                hidden = sum(bool(v) and max(v) > time_ms for v in case.merged.values())
            assert view.below_horizon == below + hidden
            assert view.get_many(KEYS, [time_ms] * len(KEYS)) == list(found.values())
            assert view.below_horizon == below + 2 * hidden
            below += 2 * hidden
            for reverse in (False, True):
                scanned = list(view.scan(DATA, HISTORY, time_ms, reverse=reverse))
                there = [(key, record) for key, record in found.items() if record is not None]
                assert scanned == sorted(there, reverse=reverse, key=lambda pair: pair[0])
            view.below_horizon = below
        for key in KEYS:
            versions = case.merged.get(key, {})
            latest = view.latest(key)
            assert latest == (ends_of(versions)[-1] if versions else None)
            for time_ms in TIMES[max(0, horizon) :]:
                after = min((start for start in versions if start > time_ms), default=None)
                assert view.start_after(key, time_ms) == after


@pytest.mark.spec("VRS-9")
def test_a_view_gives_the_history_that_the_model_has_of_every_range() -> None:
    """Of one key and of a range of keys, in both directions, with pending versions and without."""
    for seed, case in enumerate(cases()):
        view = VersionedView(
            case.engine, case.waiting, case.stream_time_ms, case.retention_ms, case.cached
        )
        chance = Random(seed)
        for _ in range(4):
            first = chance.choice([None, *TIMES])
            last = chance.choice([None, *TIMES[first or 0 :]])
            of_each = {
                key: history_of(case.merged.get(key, {}), first, last, case.horizon_ms)
                for key in KEYS
            }
            for reverse in (False, True):
                before = view.below_horizon
                for key, wanted in of_each.items():
                    found = list(view.history(key, first, last, reverse=reverse))
                    assert found == (wanted[::-1] if reverse else wanted)
                is_below = last is not None and last < case.horizon_ms
                assert view.below_horizon - before == len(KEYS) * is_below
                everything = [(key, each) for key in KEYS for each in of_each[key]]
                ranged = list(view.range_history(DATA, HISTORY, first, last, reverse=reverse))
                assert ranged == (everything[::-1] if reverse else everything)


@pytest.mark.spec("COM-17")
@pytest.mark.parametrize("turned_rows", [1, 2, 65_536])
def test_content_has_every_version_that_a_read_finds(
    turned_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In key and time order, however few versions of a key are turned round in memory.

    A key may have more versions than that. The other way of reading them was never taken.
    """
    monkeypatch.setattr(content, "_TURNED_ROWS", turned_rows)
    for case in cases():
        reached = max((max(versions) for versions in case.stored.values()), default=0)
        horizon = reached - case.retention_ms
        found = [
            each
            for changes in content.version_chunks(case.engine, horizon)
            for each in zip(changes.keys, changes.times_ms or (), changes.values, strict=True)
        ]

        assert found == [
            (key, start, value)
            for key, versions in case.stored.items()
            for start, value, end in ends_of(versions)
            if (end is not None and end > horizon)
            or (end is None and (value is not None or start >= horizon))
        ]
        assert [row for row, _ in case.engine.scan(END)] == []


def test_only_so_many_versions_of_a_key_are_turned_round_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three where three are allowed; of one more each is read twice, and the next key once."""
    monkeypatch.setattr(content, "_TURNED_ROWS", 3)
    for superseded, scans in ((3, 0), (4, 1)):
        versions: Versions = {start: b"%d" % start for start in range(superseded + 1)}
        with CountedReads.open("unused") as engine:
            for key in (b"a", b"b"):
                stored: Versions = versions if key == b"a" else {0: b"0", 1: b"1"}
                engine.apply(rows_of(key, stored), Durability.PROCESS_CRASH)
            found = [
                (key, start)
                for changes in content.version_chunks(engine, -1)
                for key, start in zip(changes.keys, changes.times_ms or (), strict=True)
            ]

            assert found == [*((b"a", start) for start in versions), (b"b", 0), (b"b", 1)]
            assert engine.reversed_scans == scans


@pytest.mark.spec("COM-38")
def test_chunks_of_content_are_as_many_versions_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large values come a few at a time, however many versions there are."""
    monkeypatch.setattr(content_chunks, "CHUNK_BYTES", 32_000)
    with CountedReads.open("unused") as engine:
        versions: Versions = dict.fromkeys(range(300), b"v" * 1_000)
        engine.apply(rows_of(b"k", versions), Durability.PROCESS_CRASH)
        sizes = [len(changes) for changes in content.version_chunks(engine, -1)]

    assert sizes == [64, *[32] * 7, 12]


@pytest.mark.spec("VRS-9", "LAY-7")
def test_versions_at_the_end_of_time_are_found() -> None:
    """Their keys are the lowest of the history: what is left of time is near 0."""
    times = [MAX_TIME_MS - 1, MAX_TIME_MS]
    versions: Versions = dict.fromkeys([5, *times], b"v")
    with CountedReads.open("unused") as engine:
        engine.apply(rows_of(b"k", versions), Durability.PROCESS_CRASH)
        view = VersionedView(engine, {}, MAX_TIME_MS, MAX_TIME_MS)

        for reverse in (False, True):
            found = [each.valid_from_ms for each in view.history(b"k", None, None, reverse=reverse)]
            assert sorted(found) == [5, *times]
        assert view.get(b"k", times[0]) == ss.VersionedRecord(b"v", times[0], times[1])
        assert view.start_after(b"k", 3) == 5
        assert view.start_after(b"k", 5) == times[0]


@pytest.mark.spec("VRS-4", "VRS-8")
def test_a_version_whose_deletion_has_gone_is_not_found_beside_pending_ones() -> None:
    """The vacuum has removed the deletion and not yet the version, which ended with it."""
    with CountedReads.open("unused") as engine:
        rows = rows_of(b"k", {0: b"gone", 5: None})
        left = {history_key(b"k", 0): rows[history_key(b"k", 0)]}
        engine.apply(left, Durability.PROCESS_CRASH)
        view = VersionedView(engine, {b"k": (20, b"new")}, 20, 12)

        assert [view.get(b"k", time_ms) for time_ms in (8, 19)] == [None, None]
        assert view.get(b"k", 20) == ss.VersionedRecord(b"new", 20, None)
        assert len(list(view.history(b"k", None, None, reverse=False))) == 1
        engine.apply({data_key(b"k"): latest_row(20, b"new")}, Durability.PROCESS_CRASH)
        view = VersionedView(engine, {}, 20, 15)
        assert [view.get(b"k", time_ms) for time_ms in (5, 19)] == [None, None]
        assert view.start_after(b"k", 10) == 20


def test_a_range_of_keys_ends_before_its_end_for_pending_versions_too() -> None:
    """The key that is the end is above the last one that was asked for."""
    with CountedReads.open("unused") as engine:
        pending: dict[bytes, Waiting] = dict.fromkeys(KEYS, (1, b"v"))
        view = VersionedView(engine, pending, 1, 1)
        start, stop = data_key(b"a"), data_key(b"a\x00b")

        found = [key for key, _ in view.scan(start, stop, None, reverse=False)]
        assert found == [b"a", b"a\x00"]
        assert [key for key, _ in view.range_history(start, stop, None, None, reverse=True)] == [
            b"a\x00",
            b"a",
        ]


def test_a_latest_version_that_is_cached_is_not_read() -> None:
    """The cache has what a commit has just written, and the engine may be slow."""
    with CountedReads.open("unused") as engine:
        view = VersionedView(engine, {}, 5, 5, {b"k": (5, b"cached"), b"l": None})

        assert view.latest(b"k") == Version(5, b"cached", None)
        assert view.latest(b"l") is None
        assert view.below_horizon == 0


@pytest.mark.spec("VRS-23")
def test_many_superseded_versions_are_sought_in_order_and_given_as_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A seek passes what the one before has read; of fewer keys they come as they are asked for."""
    engine = CountedReads.open("unused")
    for key in (b"a", b"b", b"c"):
        versions: Versions = {1: b"old " + key, 3: b"older " + key, 9: b"latest"}
        engine.apply(rows_of(key, versions), Durability.PROCESS_CRASH)
    seek, sought = engine.first, list[bytes]()

    def noting(start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        sought.append(start)
        return seek(start, stop)

    monkeypatch.setattr(engine, "first", noting)
    view = VersionedView(engine, {}, 9, 100)
    keys, times = [b"c", b"a", b"b", b"a", b"d", b"c"], [2, 4, 2, 1, 1, 9]
    wanted = [
        ss.VersionedRecord(b"old c", 1, 3),
        ss.VersionedRecord(b"older a", 3, 9),
        ss.VersionedRecord(b"old b", 1, 3),
        ss.VersionedRecord(b"old a", 1, 3),
        None,
        ss.VersionedRecord(b"latest", 9, None),
    ]
    for least, asked in ((6, [3, 1, 2, 0]), (7, [0, 1, 2, 3])):
        monkeypatch.setattr(view_of_versions, "IN_ORDER_FROM", least)
        sought.clear()

        assert view.get_many(keys, times) == wanted
        assert sought == [history_key(keys[place], times[place]) for place in asked]
