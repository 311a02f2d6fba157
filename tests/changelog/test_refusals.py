"""What a file log refuses, and that it is as it was after that."""

from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from statestores.changelog import (
    KEY_VALUE_CHANGES,
    ChangelogOptions,
    ChangelogReader,
    FileChangelog,
    ReadOnlyChangelog,
)
from statestores.changelog.rows import RECORD_ROWS, check_values
from statestores.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTypeError,
    StorageError,
    StoreClosedError,
    StoreLockedError,
    StoreMismatchError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.spi import Changes, Durability, Position, TopicPartition

CLICKS = TopicPartition("clicks", 0)
VIEWS = TopicPartition("views", 7)
NOSYNC = Durability.PROCESS_CRASH

Row = tuple[int, bytes, bytes | None]


def changes(*rows: tuple[bytes, bytes | None]) -> Changes:
    """Return rows of a key-value store as columns."""
    return Changes([key for key, _ in rows], [value for _, value in rows])


def rows_of(
    log: ReadOnlyChangelog, from_offset: int | None = None, to_offset: int | None = None
) -> list[Row]:
    """Return offset, key and value of each change that *log* gives."""
    rows: list[Row] = []
    for frame in log.read(from_offset, to_offset):
        columns = frame.changes
        rows += zip(frame.offsets, columns.keys, columns.values, strict=True)
    return rows


@pytest.mark.parametrize(
    ("kind", "wrong", "error"),
    [
        ("key-value", Changes([b"a"], [b"1"], [3]), InvalidArgumentError),
        ("versioned", Changes([b"a"], [b"1"]), InvalidArgumentError),
        ("key-value", Changes([b"a", b"b"], [b"1"]), InvalidArgumentError),
        ("versioned", Changes([b"a"], [b"1"], [3, 4]), InvalidArgumentError),
        ("versioned", Changes([b"a"], [b"1"], [-1]), InvalidArgumentError),
        ("session", Changes([b"a", b"b"], [b"1"] * 2, [3, 4], [3, 3]), InvalidArgumentError),
        ("versioned", Changes([b"a"], [b"1"], cast("Any", [None])), InvalidArgumentError),
        ("key-value", Changes(cast("Any", [None]), [b"1"]), InvalidArgumentError),
        ("key-value", Changes(cast("Any", [7]), [b"1"]), InvalidTypeError),
        ("versioned", Changes([b"a"], [b"1"], cast("Any", ["t"])), InvalidTypeError),
        ("versioned", Changes([b"a"], [b"1"], [2**63]), InvalidTypeError),
    ],
)
def test_malformed_changes_are_refused_and_nothing_is_appended(
    directory: Path, kind: str, wrong: Changes, error: type[Exception]
) -> None:
    """Wrong kinds of columns, lengths, types and times."""
    with FileChangelog.create(directory, kind) as log:
        with pytest.raises(error):
            log.append(wrong)

        assert log.end_offset == 0


@pytest.mark.parametrize(
    "wrong",
    [
        [b"a"],
        pa.record_batch({"key": [b"a"]}),
        pa.record_batch({"key": ["a"], "value": [b"1"]}),
        pa.record_batch({"value": [b"1"], "key": [b"a"]}),
    ],
)
def test_batches_of_other_columns_are_refused(directory: Path, wrong: object) -> None:
    """The message names the columns that the log takes."""
    with FileChangelog.create(directory, "key-value") as log:
        with pytest.raises(InvalidTypeError, match=r"key binary, value binary|RecordBatch"):
            log.append_batch(wrong)

        assert log.end_offset == 0


def test_a_batch_with_a_null_key_is_refused(directory: Path) -> None:
    """Every change has a key."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array([None], pa.binary()), pa.array([b"1"])], schema=KEY_VALUE_CHANGES
    )
    with (
        FileChangelog.create(directory, "key-value") as log,
        pytest.raises(InvalidArgumentError, match="key"),
    ):
        log.append_batch(batch)


def test_positions_beyond_the_format_are_refused(directory: Path) -> None:
    """A topic of more than 65,535 bytes, and a mapping that is no position.

    A partition number of more than 32 bits is in no position.
    """
    with pytest.raises(InvalidArgumentError, match=r"2\*\*32 - 1"):
        Position({TopicPartition("clicks", 2**32): 1})
    with FileChangelog.create(directory, "key-value") as log:
        with pytest.raises(InvalidArgumentError, match="65535 bytes"):
            log.append(changes(), position=Position({TopicPartition("c" * 65_536, 0): 1}))
        with pytest.raises(InvalidTypeError, match="Position"):
            log.append(changes(), position=cast("Position", {CLICKS: 1}))

        assert log.end_offset == 0


def test_offsets_end_at_the_largest_int64(directory: Path) -> None:
    """The last offset can be used, and none after it."""
    with FileChangelog.create(directory, "key-value", first_offset=2**63 - 1) as log:
        log.append(changes((b"a", b"1")))
        with pytest.raises(InvalidArgumentError, match="2\\*\\*63"):
            log.append(changes((b"a", b"2")))

        assert rows_of(log) == [(2**63 - 1, b"a", b"1")]


@pytest.mark.spec("LOG-28")
def test_a_second_writer_is_locked_out(directory: Path) -> None:
    """The message names the owner's process; readers are let in."""
    with FileChangelog.create(directory, "key-value"):
        with pytest.raises(StoreLockedError, match="in process"):
            FileChangelog.open(directory, "key-value")
        with ChangelogReader.open(directory) as reader:
            assert reader.end_offset == 0


@pytest.mark.spec("LOG-29")
def test_a_closed_log_says_so(directory: Path) -> None:
    """Closing twice is fine; using a closed log, or an iterator of one, is not."""
    log = FileChangelog.create(directory, "key-value")
    log.append(changes((b"a", b"1")))
    log.append(changes((b"a", b"2")))
    reader = ChangelogReader.open(directory)
    running = [log.read(), reader.read()]
    for frames in running:
        next(frames)
    log.close()
    log.close()
    reader.close()
    reader.close()

    for frames in running:
        with pytest.raises(StoreClosedError):
            next(frames)
    assert not log.is_open
    assert not reader.is_open
    for use in (
        lambda: log.append(changes()),
        lambda: log.append_batch(pa.record_batch({})),
        log.append_clear,
        log.read,
        log.seal,
        log.segments,
        lambda: log.delete_before(0),
        lambda: log.end_offset,
        lambda: log.first_offset,
        lambda: log.position,
        reader.read,
        reader.segments,
        lambda: reader.end_offset,
        lambda: reader.first_offset,
        lambda: reader.position,
        lambda: reader.torn_tail,
    ):
        with pytest.raises(StoreClosedError):
            use()


def test_a_missing_log_is_not_invented(directory: Path) -> None:
    """Opening what is not there says so, and leaves nothing behind."""
    for look in (
        lambda: FileChangelog.open(directory, "key-value"),
        lambda: ChangelogReader.open(directory),
    ):
        with pytest.raises(StoreNotFoundError, match="no changelog"):
            look()

    assert not FileChangelog.exists(directory)
    assert not directory.exists()


def test_a_log_is_not_created_over_another(directory: Path) -> None:
    """What is there stays."""
    with FileChangelog.create(directory, "key-value") as log:
        log.append(changes((b"a", b"1")))
    with pytest.raises(StoreMismatchError, match="already"):
        FileChangelog.create(directory, "key-value")

    assert FileChangelog.exists(directory)
    with FileChangelog.open(directory, "key-value") as log:
        assert log.end_offset == 1


@pytest.mark.spec("LOG-26", "LOG-27")
def test_a_log_of_another_kind_is_refused(directory: Path) -> None:
    """Also by a reader that says what it expects; a kind that no release knows cannot be made."""
    with FileChangelog.create(directory, "versioned"):
        pass
    with pytest.raises(StoreMismatchError, match="versioned"):
        FileChangelog.open(directory, "key-value")
    with pytest.raises(StoreMismatchError, match="versioned"):
        ChangelogReader.open(directory, "key-value")
    with pytest.raises(UnsupportedFormatError, match="graph"):
        FileChangelog.create(directory / "other", "graph")

    with ChangelogReader.open(directory, "versioned") as reader:
        assert reader.store_kind == "versioned"


@pytest.mark.parametrize("first_offset", [-1, 2**63, "0"])
def test_impossible_first_offsets_are_refused(directory: Path, first_offset: Any) -> None:
    """A log begins at an offset."""
    with pytest.raises(InvalidArgumentError, match="first_offset"):
        FileChangelog.create(directory, "key-value", first_offset=first_offset)


def test_impossible_options_are_refused() -> None:
    """A segment has a size."""
    with pytest.raises(InvalidOptionError, match="segment_bytes"):
        ChangelogOptions(segment_bytes=0)


def test_options_of_another_type_are_refused(directory: Path) -> None:
    """A dictionary has the same names, and none of the checks."""
    options: Any = {"segment_bytes": 1 << 20}
    for opener in (FileChangelog.create, FileChangelog.open):
        with pytest.raises(InvalidTypeError, match=r"such as ChangelogOptions\(segment_bytes"):
            opener(directory, "key-value", options)


def test_records_of_a_topic_may_have_no_key_and_must_have_a_time() -> None:
    """A topic holds what is sent to it; whoever reads it judges the rest."""
    columns = {field.name: pa.nulls(1, field.type) for field in RECORD_ROWS}
    columns["timestamp"] = pa.array([-1], RECORD_ROWS.field("timestamp").type)
    check_values(pa.record_batch(columns, RECORD_ROWS))

    columns["timestamp"] = pa.nulls(1, RECORD_ROWS.field("timestamp").type)
    with pytest.raises(InvalidArgumentError, match="every record has one"):
        check_values(pa.record_batch(columns, RECORD_ROWS))


def test_segments_that_go_whenever_they_are_opened_are_an_error(
    segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compactions replace them faster than a reader opens them: it says so, and ends."""
    opened = 0

    def gone(path: Path) -> Any:
        nonlocal opened
        opened += 1
        raise FileNotFoundError(str(path))

    with ChangelogReader.open(segment.parent) as reader:
        segments = SimpleNamespace(open=gone)
        monkeypatch.setattr("statestores.changelog.range_reading.Segment", segments)
        with pytest.raises(StorageError, match="change faster than they can be opened"):
            list(reader.read())
    assert opened > 1


@pytest.mark.spec("LOG-2")
@pytest.mark.parametrize("time", [1.5, 2.0, "5", Decimal(5)])
def test_a_time_that_is_no_integer_is_refused(directory: Path, time: Any) -> None:
    """A float of seconds was appended without a word, as what comes before its point.

    So said Arrow, of floats in a list; the store had refused them, but whoever writes a changelog
    himself has no store. All milliseconds were gone, and every version of a second was one.
    """
    with FileChangelog.create(directory, "versioned") as log:
        for times in ([time], [5, time], (time,)):
            changes = Changes([b"k"] * len(times), [b"v"] * len(times), times)
            with pytest.raises(InvalidTypeError, match="timestamp column of changes"):
                log.append(changes)
        taken: Any
        for taken in ([np.int64(5)], np.array([5]), pa.array([5]), (5,)):
            log.append(Changes([b"k"], [b"v"], taken))

        assert [frame.changes.times_ms for frame in log.read()] == [[5]] * 4


@pytest.mark.spec("LOG-2")
def test_a_timestamp_is_an_integer_beside_deletions_too(directory: Path) -> None:
    """A deletion has none."""
    with FileChangelog.create(directory, "timestamped-key-value") as log:
        times: Any = [5, None, 1.5]
        changes = Changes([b"a", b"b", b"c"], [b"1", None, b"3"], timestamps_ms=times)
        with pytest.raises(InvalidTypeError, match=r"has int, got 1\.5"):
            log.append(changes)
