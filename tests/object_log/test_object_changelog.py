"""The changelog in an object store keeps the contract of changelogs (spec/06)."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from statestores.changelog import (
    Changelog,
    ChangelogOptions,
    Compression,
    FrameKind,
    OffsetRange,
    ReadOnlyChangelog,
)
from statestores.errors import (
    ChangelogCorruptedError,
    CommitInDoubtError,
    FencedError,
    InvalidArgumentError,
    InvalidTypeError,
    OffsetOutOfRangeError,
    StorageError,
    StoreClosedError,
    StoreMismatchError,
)
from statestores.failpoints import arm, disarm
from statestores.object_log import ObjectChangelog, ObjectChangelogReader, ObjectLog
from statestores.object_log.documents import is_seal
from statestores.spi import Changes, Position, TopicPartition
from statestores.storage import Found, Outcome

CLICKS, VIEWS = TopicPartition("clicks", 0), TopicPartition("views", 7)
Row = tuple[int, bytes, bytes | None]


def changes(*rows: tuple[bytes, bytes | None]) -> Changes:
    """Return rows of a key-value store as columns."""
    return Changes([key for key, _ in rows], [value for _, value in rows])


def rows_of(log: ReadOnlyChangelog, first: int | None = None, stop: int | None = None) -> list[Row]:
    """Return offset, key and value of each change that *log* gives."""
    rows: list[Row] = []
    for frame in log.read(first, stop):
        columns = frame.changes
        rows += zip(frame.offsets, columns.keys, columns.values, strict=True)
    return rows


def take(log: ObjectLog, partition: int = 0, **arguments: Any) -> ObjectChangelog:
    """Become the owner of *partition*."""
    return ObjectChangelog.take_over(log.reader(partition), **arguments)


@pytest.mark.spec("LOG-1", "LOG-2", "LOG-3", "OBJ-19")
def test_what_was_appended_is_read_with_its_offsets(log: ObjectLog) -> None:
    """Offsets are consecutive across appends and folds, and a reader finds each change."""
    with take(log) as owner:
        assert (owner.first_offset, owner.end_offset) == (0, 0)
        assert owner.append(changes((b"a", b"1"), (b"b", None))) == OffsetRange(0, 1)
        log.fold()
        assert owner.append(changes((b"a", b""))) == OffsetRange(2, 2)
        assert owner.append(changes(), position=Position({CLICKS: 8})) == OffsetRange(3, 3)
        expected = [(0, b"a", b"1"), (1, b"b", None), (2, b"a", b"")]
        assert rows_of(owner) == expected

    with log.reader(0) as reader, log.reader(1) as other:
        assert (reader.first_offset, reader.end_offset) == (0, 4)
        assert rows_of(reader) == expected
        assert (other.end_offset, rows_of(other)) == (0, [])


@pytest.mark.spec("LOG-24")
@pytest.mark.parametrize("compression", list(Compression))
def test_versioned_changes_have_their_times(log: ObjectLog, compression: Compression) -> None:
    """Times come back as they were, under every compression."""
    written = Changes([b"a", b"", b"a"], [b"1", b"x" * 10_000, None], [5, 0, 2**63 - 1])
    made = ObjectLog(storage=log.storage, store="v", store_kind="versioned", partitions=1)
    made.create()
    with take(made, options=ChangelogOptions(compression=compression)) as owner:
        owner.append(written)
        made.fold()

        (frame,) = made.reader(0).read()

        assert frame.changes == written


@pytest.mark.spec("LOG-6", "LOG-7")
def test_positions_are_merged_and_begin_anew_with_a_clear(log: ObjectLog) -> None:
    """Across entries, segments and grants."""
    with take(log) as owner:
        owner.append(changes((b"a", b"1")), position=Position({CLICKS: 5, VIEWS: 1}))
        log.fold()
        owner.append(changes((b"a", b"2")), position=Position({CLICKS: 4}))
    with take(log) as owner:
        owner.append(changes((b"a", b"3")), position=Position({VIEWS: 9}))
        assert owner.position == {CLICKS: 5, VIEWS: 9}
        assert log.reader(0).position == owner.position
        assert owner.append_clear(position=Position({CLICKS: 2})) == 3
        log.fold()
        owner.append(changes((b"b", b"2")), position=Position({CLICKS: 3}))

    with log.reader(0) as reader:
        kinds = [frame.kind for frame in reader.read()]
        assert kinds == [FrameKind.CHANGES] * 3 + [FrameKind.CLEAR, FrameKind.CHANGES]
        assert reader.position == {CLICKS: 3}


@pytest.mark.spec("LOG-4", "LOG-9")
def test_every_range_is_cut_where_it_says(log: ObjectLog) -> None:
    """Whatever lies in a segment, and whatever after it."""
    chance = random.Random(11)
    rows: list[Row] = []
    with take(log) as owner:
        for number in range(12):
            keys = [b"%d" % len(rows)] * chance.randint(1, 4)
            owner.append(Changes(keys, [b"%d" % number] * len(keys)))
            rows += [(len(rows) + i, key, b"%d" % number) for i, key in enumerate(keys)]
            if number in {3, 7}:
                log.fold()
    reader = log.reader(0)
    for first in range(len(rows) + 1):
        for stop in range(first, len(rows) + 1, 3):
            assert rows_of(reader, first, stop) == rows[first:stop]
    for bounds in ((0, len(rows) + 1), (len(rows) + 1, None)):
        with pytest.raises(OffsetOutOfRangeError):
            reader.read(*bounds)
    with pytest.raises(InvalidArgumentError):
        reader.read(3, 2)


@pytest.mark.spec("LOG-18", "LOG-19", "LOG-30", "OBJ-9", "OBJ-13")
def test_a_reader_goes_on_while_the_log_is_compacted(log: ObjectLog) -> None:
    """What is folded and deleted under it is found in its new place, once and in order."""
    owner = take(log)
    for number in range(40):
        owner.append(changes((b"k%d" % (number % 3), b"%d" % number)))
    late = log.reader(0)
    late._view.parts[0].entries = [each.without_data() for each in late._view.parts[0].entries]
    frames = late.read()
    seen = [next(frames) for _ in range(5)]
    report = log.compact()
    assert (report.entries, report.changes_before, report.changes_after) == (41, 40, 3)
    seen += frames

    assert seen[-1].last_offset == 39
    assert [frame.base_offset for frame in seen[1:]] == [f.last_offset + 1 for f in seen[:-1]]
    last = {key: value for f in seen for key, value in zip(*_columns(f), strict=True)}
    assert last == {b"k0": b"39", b"k1": b"37", b"k2": b"38"}
    assert rows_of(log.reader(0)) == [(37, b"k1", b"37"), (38, b"k2", b"38"), (39, b"k0", b"39")]
    owner.append_clear()
    owner.append(changes((b"z", b"0")))
    log.compact()
    assert rows_of(log.reader(0)) == [(41, b"z", b"0")]
    assert rows_of(owner) == [(41, b"z", b"0")]


def _columns(frame: Any) -> tuple[list[bytes], list[bytes | None]]:
    return frame.changes.keys, frame.changes.values


@pytest.mark.spec("LOG-26", "LOG-27", "LOG-29", "LOG-16")
def test_refusals(log: ObjectLog) -> None:
    """Of another kind, closed, malformed, or shorter than what its store has."""
    wrong = ObjectLog(storage=log.storage, store="store", store_kind="versioned", partitions=2)
    with pytest.raises(StoreMismatchError, match="key-value"):
        wrong.reader(0)
    owner = take(log)
    with pytest.raises(InvalidTypeError):
        owner.append(changes(), position={})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        owner.append(Changes([b"a"], []))
    owner.append(changes((b"a", b"1")))
    with pytest.raises(ChangelogCorruptedError, match="committed offset 1"):
        take(log, committed_offset=1)
    owner.append(changes((b"a", b"2")))  # nobody was fenced
    frames = owner.read()
    owner.close()
    owner.close()
    for call in (
        lambda: owner.append(changes()),
        lambda: owner.end_offset,
        lambda: next(iter(frames)),
    ):
        with pytest.raises(StoreClosedError):
            call()


@pytest.mark.spec("OBJ-10", "LOG-28", "LOG-14")
def test_a_fenced_owner_has_appended_nothing(log: ObjectLog) -> None:
    """Neither at once nor later, nor after the log was folded and vacuumed."""
    first = take(log)
    first.append(changes((b"a", b"1")))
    second = take(log)
    for _ in range(3):
        with pytest.raises(FencedError, match="nothing of this commit was written"):
            first.append(changes((b"a", b"lost")))
        log.fold()
        log.vacuum()
    second.append(changes((b"a", b"2")))

    assert rows_of(log.reader(0)) == [(0, b"a", b"1"), (1, b"a", b"2")]
    assert first.end_offset == 1


class Flaky:
    """A storage whose puts go wrong."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.faults: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def create(self, name: str, data: bytes) -> Outcome:
        """Do what is next in `faults`."""
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "interrupt":
            self._storage.create(name, data)
            raise KeyboardInterrupt
        if fault in {"", "forget", "conflict"}:
            done: Outcome = self._storage.create(name, data)
            if not fault:
                return done
        return Outcome.REFUSED if fault == "conflict" else Outcome.UNKNOWN

    def read(self, name: str, known_tag: str | None = None) -> Any:
        """Fail when `faults` say so."""
        if self.faults and self.faults[0] == "no read":
            raise StorageError("nobody answers")
        return self._storage.read(name, known_tag)


def flaky(log: ObjectLog) -> tuple[ObjectChangelog, list[str]]:
    """Return an owner of partition 0, and what goes wrong next."""
    owner = take(log)
    storage = Flaky(log.storage)
    owner._storage = storage  # type: ignore[assignment]
    return owner, storage.faults


@pytest.mark.spec("OBJ-5", "LOG-14")
def test_an_answer_that_was_lost_is_found_out(log: ObjectLog) -> None:
    """Done and denied, not done and denied, refused though it was ours: one append each."""
    owner, faults = flaky(log)
    for number, wrong in enumerate((["forget"], ["fail"], ["conflict"], ["fail", "forget"])):
        faults += wrong
        assert owner.append(changes((b"a", b"%d" % number))).first == number

    assert [value for _, _, value in rows_of(log.reader(0))] == [b"0", b"1", b"2", b"3"]


@pytest.mark.spec("OBJ-5", "OBJ-11", "LOG-15")
def test_what_cannot_be_found_out_stops_the_log_until_it_is_opened(log: ObjectLog) -> None:
    """Nothing follows an append that may still happen; opening again seals it."""
    owner, faults = flaky(log)
    faults += ["forget", "no read"]
    with pytest.raises(CommitInDoubtError, match="open it again"):
        owner.append(changes((b"a", b"1")))
    faults.clear()
    with pytest.raises(CommitInDoubtError, match="open it again"):
        owner.append(changes((b"a", b"2")))

    assert rows_of(take(log)) == [(0, b"a", b"1")]


@pytest.mark.spec("OBJ-5", "LGS-14")
def test_an_interrupt_in_the_middle_of_a_put(log: ObjectLog) -> None:
    """The put is made again, so that it is known; the log goes on."""
    owner, faults = flaky(log)
    faults += ["interrupt"]
    with pytest.raises(KeyboardInterrupt):
        owner.append(changes((b"a", b"1")))
    assert owner.end_offset == 1
    faults += ["interrupt", "fail", "no read"]
    with pytest.raises(CommitInDoubtError):
        owner.append(changes((b"a", b"2")))


@pytest.mark.spec("OBJ-5", "LGS-14")
def test_an_interrupt_behind_the_put(log: ObjectLog) -> None:
    """What the object store has counts, and is in the totals, once."""
    owner = take(log)

    def interrupt() -> None:
        raise KeyboardInterrupt

    arm("objects.append.settled", interrupt, at=1)
    try:
        with pytest.raises(KeyboardInterrupt):
            owner.append(changes((b"a", b"1")), position=Position({CLICKS: 1}))
    finally:
        disarm()
    assert owner.end_offset == 1
    assert owner.position == {CLICKS: 1}
    owner.append(changes((b"a", b"2")))

    assert rows_of(owner) == rows_of(log.reader(0)) == [(0, b"a", b"1"), (1, b"a", b"2")]


@pytest.mark.spec("OBJ-5")
def test_an_owner_that_was_fenced_too_often_is_told_that_nobody_knows(log: ObjectLog) -> None:
    """Its put was answered late, and the checkpoint remembers some grants only."""
    owner = take(log)
    for _ in range(70):
        take(log, 0)
    log.fold()
    with pytest.raises(CommitInDoubtError, match="taken over too often"):
        owner.append(changes((b"a", b"1")))

    assert rows_of(log.reader(0)) == []


@pytest.mark.spec("OBJ-13")
def test_an_owner_knows_what_is_folded_as_segments_only(log: ObjectLog) -> None:
    """It looks now and then: it had an entry in memory for each commit of its long life."""
    owner = take(log)
    for number in range(130):
        owner.append(changes((b"a", b"%d" % number)))
        if number in {10, 60, 100}:
            log.fold()
    part = owner.view.parts[0]

    assert (len(part.segments), len(part.entries)) == (3, 29)
    assert [value for _, _, value in rows_of(owner)] == [b"%d" % number for number in range(130)]


@pytest.mark.spec("OBJ-35")
def test_a_seal_stays_for_ever(log: ObjectLog) -> None:
    """It alone keeps an owner out that wakes up when everything else of its time is gone."""
    late = take(log)
    late.append(changes((b"a", b"1")))
    for number in range(3):
        take(log).append(changes((b"a", b"%d" % number)))
    log.release(0)
    log.compact()
    log.vacuum(abandoned_after_ms=0)
    left = [log.storage.read(each.name) for each in log.storage.list("store/own/")]
    assert len(left) == 4
    assert all(isinstance(each, Found) and is_seal(each.data) for each in left)
    with pytest.raises(FencedError):
        late.append(changes((b"a", b"late")))

    assert [value for _, _, value in rows_of(log.reader(0))] == [b"2"]


@pytest.mark.spec("OBJ-3", "OBJ-19", "LOG-11")
def test_every_damaged_byte_is_noticed(log: ObjectLog) -> None:
    """In an entry, a segment, the root log and the checkpoint; and so is an object that is gone."""
    owner = take(log)
    owner.append(changes((b"a", b"1")), position=Position({CLICKS: 1}))
    log.fold()
    owner.append(changes((b"a", b"2")), position=Position({CLICKS: 2}))
    take(log, 1)
    names = [each.name for each in log.storage.list("store/")]
    assert len(names) == 4
    for name in names:
        found = log.storage.read(name)
        assert isinstance(found, Found)
        for at in range(0, len(found.data), max(1, len(found.data) // 16)):
            log.storage.delete(name)
            log.storage.create(name, _flipped(found.data, at))
            with pytest.raises(ChangelogCorruptedError, match="memory://"):
                _read_all(log)
        log.storage.delete(name)
        if "/own/" not in name and "/root/" not in name:  # without one of these, it is the end
            with pytest.raises(ChangelogCorruptedError, match="memory://"):
                _read_all(log)
        log.storage.create(name, found.data)
    _read_all(log)


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def _read_all(log: ObjectLog) -> None:
    for partition in range(2):
        with log.reader(partition) as reader:
            assert len(rows_of(reader)) == (2 if partition == 0 else 0)


def test_a_changelog_is_one_by_its_types(log: ObjectLog) -> None:
    """Whoever takes a changelog takes these."""
    assert isinstance(take(log), Changelog)
    assert isinstance(log.reader(0), ObjectChangelogReader)


class _InterruptAt:
    """An interrupt in a line of the owner's module, counted from 1."""

    def __init__(self, line: int) -> None:
        self.line, self.seen = line, 0

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        """Raise in that line."""
        if not frame.f_code.co_filename.endswith("object_log/changelog.py"):
            return self
        if event == "line":
            self.seen += 1
            if self.seen == self.line:
                raise KeyboardInterrupt
        return self


@pytest.mark.spec("OBJ-53", "OBJ-11")
def test_an_interrupt_at_any_line_of_an_append_leaves_nobody_waiting(log: ObjectLog) -> None:
    """What an append holds while it settles may be held still: its owner goes on all the same."""
    line = 0
    while True:
        line += 1
        with ObjectChangelog.take_over(log.reader(0)) as owner:
            end, interrupt, before = owner.end_offset, _InterruptAt(line), sys.gettrace()
            sys.settrace(interrupt)
            try:
                owner.append(changes((b"k", b"v")))
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
            with ThreadPoolExecutor(1) as other:
                known = other.submit(lambda log=owner: log.end_as_known).result(60)  # type: ignore[misc]  # of this turn
            assert known - end in (0, 1)
            has = owner.end_offset
            assert owner.append(changes((b"l", b"w"))).first == has
        assert log.reader(0).end_offset == has + 1
        if interrupt.seen < line:
            break
    assert line > 10
