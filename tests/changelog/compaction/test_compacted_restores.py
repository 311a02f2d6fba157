"""A compacted log restores what the whole log restores: from nothing, and onto any older state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_log import CLICKS, NOSYNC

import statestores as ss
from statestores.changelog import (
    FileChangelog,
    FrameKind,
    ReadOnlyChangelog,
    compact,
    merged_frames,
)
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import (
    KeyValueStore,
    Position,
    StateStore,
    VersionedStore,
)

RETENTION_MS = 20


KEYS = [b"", b"a", b"a\x00", b"b"]


TIMES = range(101)


def answers(store: StateStore) -> object:
    """Return all that reads can find in *store*."""
    if isinstance(store, VersionedStore):
        return (
            store.stream_time_ms,
            [list(store.history(key)) for key in KEYS],
            [list(store.scan_as_of(time_ms)) for time_ms in (None, *TIMES)],
        )
    assert isinstance(store, KeyValueStore)
    return list(store.range())


def new_store(kind: str) -> StateStore:
    """Open an empty store in memory."""
    engine = load_backend("memory").open("unused")
    if kind == "versioned":
        return open_on_engine(engine, ss.Versioned("s", history_retention_ms=RETENTION_MS))
    return open_on_engine(engine, ss.KeyValue("s"))


def restore(store: StateStore, log: ReadOnlyChangelog, first: int, stop: int) -> None:
    """Replay a range of *log*, with a commit after each frame."""
    for frame in log.read(first, stop):
        if frame.kind is FrameKind.CLEAR:
            store.truncate()
        else:
            store.replay(frame.changes)
        store.advance_position(frame.position)
        store.commit({}, durability=NOSYNC)


put = st.tuples(
    st.sampled_from(KEYS),
    st.none() | st.sampled_from([b"", b"1", b"2"]),
    st.integers(TIMES.start, TIMES.stop - 1),
)


step = st.one_of(
    st.lists(put, max_size=5),
    st.lists(put, min_size=1, max_size=5),
    st.sampled_from(["seal", "compact", "clear", "reopen"]),
)


@pytest.mark.spec("LOG-18", "LOG-30")
@pytest.mark.parametrize("kind", ["key-value", "versioned"])
@given(steps=st.lists(step, max_size=25), rows=st.sampled_from([1, 3, 10_000]), data=st.data())
def test_a_compacted_log_restores_what_the_whole_log_restores(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    steps: list[object],
    rows: int,
    data: st.DataObject,
) -> None:
    """From nothing, and onto any older state: every read, stream time and position agree.

    The writer's puts go through a store, which refuses late ones; its pending changes are
    appended both to a log that is compacted now and then and to one that never is.
    """
    folder = tmp_path_factory.mktemp("logs")
    live = new_store(kind)
    retention_ms = RETENTION_MS if kind == "versioned" else None
    whole = FileChangelog.create(folder / "whole", kind)
    log = FileChangelog.create(folder / "log", kind)
    patch = pytest.MonkeyPatch()
    patch.setattr(merged_frames, "_FRAME_ROWS", rows)
    compacted_to = 0
    try:
        for number, action in enumerate(steps):
            position = Position({CLICKS: number})
            if action == "seal":
                log.seal()
            elif action == "compact":
                compact(log, history_retention_ms=retention_ms)
                compacted_to = max(segment.first_offset for segment in log.segments())
            elif action == "reopen":
                log.close()
                log = FileChangelog.open(folder / "log", kind)
            elif action == "clear":
                live.truncate()
                live.advance_position(position)
                for each in (log, whole):
                    each.append_clear(position=position, durability=NOSYNC)
                live.commit({})
            else:
                write(live, action)
                live.advance_position(position)
                for each in (log, whole):
                    each.append(live.pending_changes(), position=position, durability=NOSYNC)
                live.commit({})
        end = log.end_offset
        committed = data.draw(st.integers(0, end), label="offset of the older state")
        reached = data.draw(st.integers(max(compacted_to, committed), end), label="restored up to")
        older, other = new_store(kind), new_store(kind)
        restore(older, whole, 0, committed)
        restore(older, log, committed, reached)
        restore(other, whole, 0, reached)
        restored = new_store(kind)
        restore(restored, log, 0, end)

        assert answers(restored) == answers(live)
        assert restored.position == log.position == whole.position == live.position
        assert answers(older) == answers(other)
        assert log.end_offset == whole.end_offset
    finally:
        patch.undo()
        whole.close()
        log.close()


def write(store: StateStore, puts: object) -> None:
    """Put what the *puts* say into *store*."""
    assert isinstance(puts, list)
    for key, value, time_ms in puts:
        if isinstance(store, VersionedStore):
            store.put(key, value, time_ms)
        else:
            assert isinstance(store, KeyValueStore)
            store.put(key, value)
