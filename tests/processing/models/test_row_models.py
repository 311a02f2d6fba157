"""Suppression, cogroups, groups of tables and timers beside naive models, with crashes."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from model_lives import COMMIT, CRASH, LEFT, OUT, RIGHT, Result, check_output, lives, run_life

import statestores as ss
from statestores.processing import (
    Cancellable,
    Context,
    Processor,
    Record,
    Topology,
    closed,
    tumbling,
)

SIZE_MS = 5

_VALUES = (None, *range(4))
_rows = tuple(product("abc", _VALUES))
_rows_and_strays = tuple(product((None, "a", "b"), _VALUES))


def _records(steps: list[Any]) -> list[tuple[str, Any, Any, int]]:
    """Return topic, key, value and time of each record of a life."""
    return [
        (topic, key, value, time_ms)
        for topic, (key, value), time_ms in (each for each in steps if each not in (COMMIT, CRASH))
    ]


@pytest.mark.spec("PRC-9", "PRC-12", "PRC-26")
@pytest.mark.parametrize(
    ("wait_ms", "max_rows"), [(0, None), (4, None), (None, 0), (None, 2), (6, 1)]
)
@given(life=lives(_rows, _rows))
def test_suppressed_rows_are_as_the_model(
    wait_ms: int | None, max_rows: int | None, life: Any
) -> None:
    """The last update of each row that waits, in the order of their first ones."""
    steps, size = life
    made = Topology("model")
    table = made.table(RIGHT, ss.KeyValue("rows", key=ss.utf8, value=ss.json))
    table.suppress(wait_ms=wait_ms, max_rows=max_rows).to_stream().to(OUT)
    made.stream(LEFT)
    found, _ = run_life(made, steps, size)

    waiting: dict[str, tuple[int, Any, int]] = {}
    wanted: list[Result] = []
    now_ms = -1
    for topic, key, value, time_ms in _records(steps):
        if topic == "left":
            continue
        now_ms = max(now_ms, time_ms)
        waiting[key] = (waiting.get(key, (time_ms,))[0], value, time_ms)
        in_order = sorted(waiting, key=lambda each: (waiting[each][0], each))
        over = [
            each
            for each in in_order
            if wait_ms is not None and waiting[each][0] <= now_ms - wait_ms
        ]
        if max_rows is not None:
            over = in_order[: max(len(over), len(in_order) - max_rows)]
        for each in over:
            _, last, last_ms = waiting.pop(each)
            wanted.append((each, last, last_ms))
    check_output(found, wanted, size)


def _plus(aggregate: str, value: int) -> str:
    return f"{aggregate}+{value}"


def _minus(aggregate: str, value: int) -> str:
    return f"{aggregate}-{value}"


@pytest.mark.spec("PRC-9", "PRC-12", "PRC-14", "PRC-39")
@given(life=lives(_rows_and_strays, _rows_and_strays))
def test_cogroups_are_as_the_model(life: Any) -> None:
    """One row for each key, each stream folded in its own way."""
    steps, size = life
    made = Topology("model")
    groups = made.stream(LEFT).group_by_key().cogroup(_plus)
    both = groups.cogroup(made.stream(RIGHT).group_by_key(), _minus)
    both.aggregate("", ss.KeyValue("sums", key=ss.utf8, value=ss.json)).to_stream().to(OUT)
    found, dropped = run_life(made, steps, size)

    rows: dict[Any, tuple[str, int]] = {}
    wanted: list[Result] = []
    lost = 0
    for topic, key, value, time_ms in _records(steps):
        if key is None or value is None:
            lost += 1
            continue
        before, seen_ms = rows.get(key, ("", 0))
        fold = _plus if topic == "left" else _minus
        rows[key] = fold(before, value), max(time_ms, seen_ms)
        wanted.append((key, *rows[key]))
    check_output(found, wanted, size)
    assert dropped == lost


@pytest.mark.spec("PRC-9", "PRC-12", "PRC-21", "PRC-22", "PRC-39")
@pytest.mark.parametrize("grace_ms", [0, 3])
@given(life=lives(_rows_and_strays, _rows_and_strays))
def test_windows_of_cogroups_are_as_the_model(grace_ms: int, life: Any) -> None:
    """Closed by the time of all streams, in the order of their starts and keys."""
    steps, size = life
    made = Topology("model")
    groups = made.stream(LEFT).group_by_key().cogroup(_plus)
    both = groups.cogroup(made.stream(RIGHT).group_by_key(), _minus)
    store = ss.Window(
        "sums", retention_ms=1_000, window_size_ms=SIZE_MS, key=ss.utf8, value=ss.json
    )
    table = both.window(tumbling(SIZE_MS, grace_ms=grace_ms)).aggregate("", store, emit=closed())
    table.to_stream().map(
        lambda record: record.with_key(f"{record.key.key}{record.key.start_ms}"),
        key=ss.utf8,
        value=ss.json,
    ).to(OUT)
    found, dropped = run_life(made, steps, size)

    windows: dict[tuple[int, str], tuple[str, int]] = {}
    wanted: list[Result] = []
    lost, now_ms = 0, -1
    for topic, key, value, time_ms in _records(steps):
        if key is None:
            lost += 1
            continue
        now_ms = max(now_ms, time_ms)
        for start_ms, name in sorted(windows):
            if start_ms + SIZE_MS + grace_ms <= now_ms:
                wanted.append((f"{name}{start_ms}", *windows.pop((start_ms, name))))
        start_ms = time_ms - time_ms % SIZE_MS
        if value is None or start_ms + SIZE_MS + grace_ms <= now_ms:
            lost += 1
            continue
        before, seen_ms = windows.get((start_ms, key), ("", 0))
        fold = _plus if topic == "left" else _minus
        windows[start_ms, key] = fold(before, value), max(time_ms, seen_ms)
    check_output(found, wanted, size)
    assert dropped == lost


@pytest.mark.spec("PRC-9", "PRC-12", "PRC-42", "PRC-43", "PRC-83")
@pytest.mark.parametrize("is_versioned", [False, True])
@pytest.mark.parametrize("is_filtered", [False, True])
@given(life=lives(_rows, _rows))
def test_groups_of_a_table_are_as_the_model(
    is_versioned: bool, is_filtered: bool, life: Any
) -> None:
    """What a row was is taken out of its group, and what it is added to the one that it is in."""
    steps, size = life
    made = Topology("model")
    store: Any = ss.KeyValue("rows", key=ss.utf8, value=ss.json)
    if is_versioned:
        store = ss.Versioned("rows", history_retention_ms=1_000, key=ss.utf8, value=ss.json)
    table: Any = made.table(RIGHT, store)
    if is_filtered:
        table = table.filter(lambda record: record.value > 0)
    group = table.group_by(lambda record: f"g{record.value % 2}", key_serde=ss.utf8)
    sums = ss.KeyValue("sums", key=ss.utf8, value=ss.json)
    group.aggregate("", _plus, _minus, sums).to_stream().to(OUT)
    made.stream(LEFT)
    found, _ = run_life(made, steps, size)

    rows: dict[str, tuple[Any, int]] = {}
    groups: dict[str, tuple[str, int]] = {}
    wanted: list[Result] = []
    for topic, key, value, time_ms in _records(steps):
        old, old_ms = rows.get(key, (None, -1))
        if topic == "left" or (is_versioned and time_ms < old_ms):
            continue
        rows[key] = value, time_ms
        moves = [(each, fold) for each, fold in ((old, _minus), (value, _plus)) if each is not None]
        moves = [each for each in moves if each[0] > 0 or not is_filtered]
        for at, (each, fold) in enumerate(moves):
            name = f"g{each % 2}"
            before, seen_ms = groups.get(name, ("", 0))
            groups[name] = fold(before, each), max(time_ms, seen_ms)
            is_one_update = at == 0 and len(moves) == 2 and moves[1][0] % 2 == each % 2
            if not is_one_update:
                wanted.append((name, *groups[name]))
    check_output(found, wanted, size)


class _Ticker(Processor[str, Any, str, Any]):
    """Ticks by stream time, and stops after some times."""

    ticks = ss.KeyValue("ticks", key=ss.utf8, value=ss.int64)
    interval_ms = 4
    most = 3

    def __init__(self, start_ms: int | None) -> None:
        """Begin to tick then."""
        self.start_ms = start_ms

    def open(self, context: Context[str, Any]) -> None:
        """Tick, and tick for good."""
        every = context.every
        self.timer: Cancellable = every(self.interval_ms, self.tick, start_ms=self.start_ms)
        every(self.interval_ms + 1, self.tock)

    def process(self, record: Record[str, Any]) -> None:
        """Forward it."""
        self.forward(record)

    def tick(self, now_ms: int) -> None:
        """Say the how manieth this is, and stop at the last."""
        store = self.store(self.ticks)
        ticks = (store.get("ticks") or 0) + 1
        store.put("ticks", ticks)
        if ticks == self.most:
            self.timer.cancel()
        self.forward(Record("tick", ticks, now_ms))

    def tock(self, now_ms: int) -> None:
        """Say so."""
        self.forward(Record("tock", None, now_ms))


@pytest.mark.spec("PRC-12", "PRC-13")
@pytest.mark.parametrize("start_ms", [None, 0, 7])
@given(life=lives(_rows, _rows))
def test_timers_are_as_the_model(start_ms: int | None, life: Any) -> None:
    """Once each time that stream time has come to the next, and never after a cancellation."""
    steps, _ = life
    made = Topology("model")
    stream = made.stream(LEFT).merge(made.stream(RIGHT))
    stream.process(
        lambda: _Ticker(start_ms), name="ticker", stores=[_Ticker.ticks], key=ss.utf8, value=ss.json
    ).to(OUT)
    found, _ = run_life(made, steps, 1)

    wanted: list[Result] = []
    now_ms, ticks = -1, 0
    due = {"tick": start_ms or 0, "tock": 0}
    intervals = {"tick": _Ticker.interval_ms, "tock": _Ticker.interval_ms + 1}
    for _, key, value, time_ms in _records(steps):
        wanted.append((key, value, time_ms))
        now_ms = max(now_ms, time_ms)
        for name, interval_ms in intervals.items():
            if due[name] <= now_ms and not (name == "tick" and ticks == _Ticker.most):
                ticks += name == "tick"
                wanted.append((name, ticks if name == "tick" else None, now_ms))
            while due[name] <= now_ms:
                due[name] += interval_ms
    assert found == wanted
