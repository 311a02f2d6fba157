"""Changelogs of the library's own frames: what a store gets back of them, and what is refused."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import ChangelogCorruptedError
from statestores.kafka.changelog_rows import ChangelogRow
from statestores.kafka.cluster import NO_ID
from statestores.kafka.tasks.changelog_frames import FRAME_KEYS, FrameFormat, Purpose
from statestores.kafka.tasks.task_stores import LoggedStore
from statestores.kafka.tasks.wholes import Wholes
from statestores.spi import Durability, Position, StoreSpecification, TopicPartition

_CHANGELOG = TopicPartition("app-store-changelog", 0)
_INPUT = TopicPartition("input", 0)
_SMALL = 700
"""So many bytes that a few rows fill a record."""
_MANY_OFFSETS = 200_000
"""So many offsets behind a whole make the next one due."""
_KINDS: dict[str, StoreSpecification[Any, Any]] = {
    "key-value": ss.KeyValue("store", key=ss.utf8, value=ss.int64),
    "timestamped": ss.TimestampedKeyValue("store", key=ss.utf8, value=ss.int64),
    "versioned": ss.Versioned("store", history_retention_ms=50, key=ss.utf8, value=ss.int64),
    "window": ss.Window("store", retention_ms=50, window_size_ms=10, key=ss.utf8, value=ss.int64),
    "session": ss.Session("store", retention_ms=50, key=ss.utf8, value=ss.int64),
}


def _opened(
    directory: Path, specification: StoreSpecification[Any, Any], *, frames: bool = True
) -> LoggedStore:
    """Return a store on the disk, whose changelog has frames."""
    store = ss.open_store(
        directory, specification, backend="sqlite", durability=Durability.PROCESS_CRASH
    )
    return LoggedStore(store, _CHANGELOG, FrameFormat(specification, _SMALL) if frames else None)


def _put(store: Any, number: int) -> None:
    """Write the row of a *number*; every seventh goes again, and with it the latest time."""
    key, at, value = f"key-{number % 25}", number, None if number % 7 == 0 else number
    if isinstance(store.specification, ss.Session):
        store.put(key, at, at + 3, value)
    elif isinstance(store.specification, (ss.Versioned, ss.Window, ss.TimestampedKeyValue)):
        store.put(key, value, at)
    else:
        store.put(key, value)


class _Log:
    """The partition of a changelog, in memory."""

    def __init__(self) -> None:
        self.rows: list[ChangelogRow] = []

    def commit(self, logged: LoggedStore, number: int) -> None:
        """Append what is pending, and commit it with its offset and the input's *number*."""
        position = Position({_INPUT: number})
        self.rows += logged.records(position, number)
        logged.store.advance_position(position)
        logged.commit(len(self.rows) - 1)

    def append_whole(self, logged: LoggedStore) -> int:
        """Append all of a store; return where that begins."""
        start = len(self.rows)
        assert logged.frames is not None
        self.rows += logged.frames.whole(logged.store.committed_content())
        return start

    def restore(self, logged: LoggedStore, start: int, stop: int) -> None:
        """Read from *start*, or where the store is, up to *stop*, a record at a time."""
        logged.begin_restore(start, len(self.rows), NO_ID)
        for offset in range(max(start, logged.next_offset), stop):
            logged.take([self.rows[offset]], offset)
            logged.commit(offset)


def _content(logged: LoggedStore) -> tuple[Any, ...]:
    content = logged.store.committed_content()
    with closing(content.changes):
        rows = [row for changes in content.changes for row in _rows(changes)]
    return rows, content.position, content.stream_time_ms


def _rows(changes: Any) -> list[tuple[Any, ...]]:
    numbers = [each for each in (changes.times_ms, changes.end_times_ms) if each is not None]
    return list(zip(changes.keys, changes.values, *numbers, strict=True))


@pytest.mark.spec("KFK-27", "KFK-28")
@pytest.mark.parametrize("kind", _KINDS)
def test_a_store_comes_back_from_frames(tmp_path: Path, kind: str) -> None:
    """From all of them; from a whole and what follows, also when that is cut in the middle."""
    log = _Log()
    owner = _opened(tmp_path / "owner", _KINDS[kind])
    starts = []
    for number in range(1, 90):
        _put(owner.store, number)
        if number % 3 == 0:
            if number in {30, 60}:
                starts.append(log.append_whole(owner))
            log.commit(owner, number)
    wanted = _content(owner)
    owner.store.close()
    whole_end = next(
        at for at in range(starts[1], len(log.rows)) if log.rows[at].key == Purpose.WHOLE_END.value
    )

    assert whole_end > starts[1] + 1
    assert max(len(row.value or b"") for row in log.rows) <= _SMALL
    for start in (0, *starts):
        for cut in {len(log.rows), starts[1] + 1, whole_end, whole_end + 1}:
            directory = tmp_path / f"{start} {cut}"
            copy = _opened(directory, _KINDS[kind])
            log.restore(copy, start, cut)
            copy.store.close()
            copy = _opened(directory, _KINDS[kind])
            log.restore(copy, start, len(log.rows))

            assert _content(copy) == wanted
            copy.store.close()


@pytest.mark.spec("KFK-28")
def test_a_copy_that_lacks_what_was_deleted_begins_with_the_whole(tmp_path: Path) -> None:
    """It is emptied, and takes the whole that the changelog begins with; an empty one, too."""
    log = _Log()
    owner = _opened(tmp_path / "owner", _KINDS["key-value"])
    copy = _opened(tmp_path / "copy", _KINDS["key-value"])
    for number in range(1, 10):
        _put(owner.store, number)
        log.commit(owner, number)
    log.restore(copy, 0, 3)
    start = log.append_whole(owner)

    log.restore(copy, start, len(log.rows))

    assert _content(copy) == _content(owner)
    owner.store.close()
    copy.store.close()


@pytest.mark.spec("KFK-27")
def test_what_is_in_another_format_is_refused(tmp_path: Path) -> None:
    """Frames where rows are wanted, rows where frames are, and a frame that is damaged."""
    log = _Log()
    frames = _opened(tmp_path / "frames", _KINDS["key-value"])
    rows = _opened(tmp_path / "rows", _KINDS["key-value"], frames=False)
    _put(frames.store, 1)
    log.commit(frames, 1)
    [row] = log.rows

    assert row.key in FRAME_KEYS
    with pytest.raises(ChangelogCorruptedError, match="changelog_format='frames'"):
        rows.take([row], 0)
    for strange in (
        ChangelogRow(b"key-1", bytes(8), 1),
        row._replace(value=None),
        row._replace(value=(row.value or b"")[:-1]),
        row._replace(value=(row.value or b"")[:-1] + b"!"),
    ):
        with pytest.raises(ChangelogCorruptedError, match=r"no frame|not intact"):
            frames.take([strange], 0)
    frames.store.close()
    rows.store.close()


@pytest.mark.spec("KFK-28")
def test_a_whole_that_took_too_long_is_not_tried_at_every_commit() -> None:
    """A store that takes long to write is tried again when as many offsets have come.

    The number of offsets behind the last whole stayed above the bound, so each commit wrote a piece
    of a whole for seconds, which nobody reads, and the log grew all the faster.
    """
    wholes = Wholes()
    wholes.begin(0)
    assert not wholes.is_due(_MANY_OFFSETS - 1)
    assert wholes.is_due(_MANY_OFFSETS)
    wholes.begins_at(_MANY_OFFSETS)
    wholes.given_up(10, _MANY_OFFSETS)
    wholes.committed()

    assert (wholes.superfluous, wholes.is_due(_MANY_OFFSETS + 1)) == (0, False)
    assert wholes.is_due(2 * _MANY_OFFSETS)
    wholes.begins_at(2 * _MANY_OFFSETS)
    wholes.written(10)
    wholes.committed()
    assert wholes.superfluous == 2 * _MANY_OFFSETS


@pytest.mark.spec("KFK-27", "KFK-50")
def test_a_copy_has_the_position_of_the_last_frame(tmp_path: Path) -> None:
    """A copy had the highest that any frame had, also of an earlier topic of the input's name."""
    log, specification = _Log(), _KINDS["key-value"]
    owner, copy = (_opened(tmp_path / name, specification) for name in ("owner", "copy"))
    found = []
    with owner.store, copy.store:
        for number in (8, 9, 2):
            _put(owner.store, number)
            log.commit(owner, number)
            log.restore(copy, 0, len(log.rows))
            found.append(copy.store.position)

    assert found == [{_INPUT: number} for number in (8, 9, 2)]
