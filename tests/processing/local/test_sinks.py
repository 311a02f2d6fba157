"""Sinks of the local runner: Parquet exactly once, and functions at least once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dying import Died, die

import statestores as ss
from statestores import failpoints
from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    InvalidTypeError,
    ProcessingError,
    StorageError,
    StoreMismatchError,
)
from statestores.processing import DeadLetter, LocalTopics, Record, Topic, Topology, run, tumbling
from statestores.processing.local import AtLeastOnce, Items, ParquetSink, StoredRecord, plan_reset

IN = Topic("in", key=ss.utf8, value=ss.json)
OUT = Topic("out", key=ss.utf8, value=ss.json)
LETTERS = Topic("letters")
PLAIN = pa.schema([("n", pa.int64()), ("who", pa.string())])

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


def _copying(**settings: Any) -> Topology:
    made = Topology("copying", **settings)
    made.stream(IN).to(OUT)
    return made


def _records(first: int, count: int) -> list[Record[str, Any]]:
    numbers = range(first, first + count)
    return [Record(f"k{at % 5}", {"n": at, "who": f"w{at}"}, at * 10) for at in numbers]


def _append(directory: Path, records: list[Any]) -> None:
    with LocalTopics(directory / "topics") as topics:
        topics.topic(IN, partitions=2).append(records)


def _run(directory: Path, sink: Any, topology: Topology | None = None, **more: Any) -> Any:
    return run(
        topology or _copying(),
        state=directory / "state",
        topics=directory / "topics",
        sinks={"out": sink},
        **{"until": "idle", "backend": "memory", "partitions": 2, **more},
    )


def _rows(directory: Path) -> list[dict[str, Any]]:
    """Return the rows of all files.

    `pyarrow.parquet.read_table` reads ahead in threads, which may still have a file open when it
    returns: on a busy machine that looked like a leak of ours, once.
    """
    rows = []
    for path in directory.glob("*.parquet"):
        with pq.ParquetFile(path) as file:
            rows += file.read().to_pylist()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


@pytest.mark.spec("PRC-63", "PRC-64")
@pytest.mark.parametrize("schema", [None, PLAIN])
def test_each_record_is_in_one_row(tmp_path: Path, schema: pa.Schema | None) -> None:
    """With its key, its value as text or in columns, and its place; whatever runs there are."""
    for first in (0, 20, 20):
        _append(
            tmp_path, _records(first, 20) if first < 20 or not (tmp_path / "o").exists() else []
        )
        _run(tmp_path, ParquetSink(tmp_path / "out", schema=schema))
        (tmp_path / "o").touch()
    _append(tmp_path, [Record("k1", None, 7)])
    _run(tmp_path, ParquetSink(tmp_path / "out", schema=schema))
    with LocalTopics(tmp_path / "topics") as topics:
        stored = list(topics.topic(OUT).read())

    rows = _rows(tmp_path / "out")
    assert [(row["partition"], row["offset"], row["key"]) for row in rows] == [
        (each.partition, each.offset, each.record.key) for each in stored
    ]
    assert [int(row["time"].timestamp() * 1000) for row in rows] == [
        each.record.time_ms for each in stored
    ]
    if schema is None:
        values = [row["value"] and ss.json.decode(row["value"].encode()) for row in rows]
    else:
        values = [{name: row[name] for name in schema.names} for row in rows]
        values = [None if set(each.values()) == {None} else each for each in values]
    assert values == [each.record.value for each in stored]


@pytest.mark.spec("PRC-64")
def test_files_are_as_large_as_is_asked_for(tmp_path: Path) -> None:
    """A commit of the runner does not make one; so many rows do, or the end of the run."""
    _append(tmp_path, _records(0, 2_500))
    sink = ParquetSink(tmp_path / "out", max_rows=1_000, every_ms=ss.HOUR)
    _run(tmp_path, sink, commit_records=100, commit_interval_ms=0)
    counts = [pq.read_metadata(each).num_rows for each in (tmp_path / "out").glob("*.parquet")]

    assert sum(counts) == 2_500
    assert len(counts) <= 6


@pytest.mark.spec("PRC-63", "PRC-64")
@pytest.mark.parametrize(
    "failpoint",
    [
        "sink.recorded",
        "task.recording",
        "task.recorded",
        "sink.copied",
        "sink.published",
        "task.outputs-appended",
        "task.carried-out",
        "task.forgotten",
    ],
)
def test_a_sink_that_dies_has_each_row_once(
    tmp_path: Path, armed: Callable[..., None], failpoint: str
) -> None:
    """Wherever in its commit; and files that others have taken away stay away."""
    sink = ParquetSink(tmp_path / "out", max_rows=7, every_ms=ss.HOUR)
    _append(tmp_path, _records(0, 10))
    _run(tmp_path, sink)
    for file in (tmp_path / "out").glob("*.parquet"):
        file.rename(tmp_path / file.name)
    for first, at in ((10, 1), (40, 2)):
        _append(tmp_path, _records(first, 30))
        armed(failpoint, die, at=at)
        with pytest.raises(Died):
            _run(tmp_path, sink)
        failpoints.disarm()
        assert all(each["value"] is not None for each in _rows(tmp_path / "out"))
    _run(tmp_path, sink)

    found = [ss.json.decode(row["value"].encode())["n"] for row in _rows(tmp_path / "out")]
    assert sorted(found) == list(range(10, 70))
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.spec("PRC-64")
def test_a_directory_has_the_files_of_one_topic_of_one_state(tmp_path: Path) -> None:
    """A state that begins anew would write everything again beside what is there."""
    _append(tmp_path, _records(0, 3))
    _run(tmp_path, ParquetSink(tmp_path / "out"))
    (tmp_path / "state").rename(tmp_path / "old")
    plan_reset(_copying(), state=tmp_path / "state", topics=tmp_path / "topics").carry_out()

    with pytest.raises(StoreMismatchError, match="choose another directory"):
        _run(tmp_path, ParquetSink(tmp_path / "out"))


@pytest.mark.spec("PRC-17", "PRC-18", "PRC-19", "PRC-64")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"n": "x", "who": "w"}, "'n' is 'x', which is no int64"),
        ({"n": 1, "who": "w", "more": 1}, "has the fields more"),
        ([1], "values that are dicts"),
    ],
)
def test_what_is_no_row_is_dealt_with_as_the_policy_says(
    tmp_path: Path, value: Any, reason: str
) -> None:
    """It is said where it was; the others are written, and dead letters are part of the commit."""
    sink = ParquetSink(tmp_path / "fail", schema=PLAIN)
    records = [*_records(0, 2), Record("k0", value, 1), *_records(2, 2)]
    for name in ("fail", "skip", "letters"):
        _append(tmp_path / name, records)
    with pytest.raises(ProcessingError, match=reason) as caught:
        _run(tmp_path / "fail", sink)
    assert "'out-sink' failed at 'out', partition" in str(caught.value)

    sink = ParquetSink(tmp_path / "skipped", schema=PLAIN)
    assert _run(tmp_path / "skip", sink, _copying(errors="skip")).dropped == 1
    assert sorted(row["n"] for row in _rows(tmp_path / "skipped")) == [0, 1, 2, 3]
    sink = ParquetSink(tmp_path / "lettered", schema=PLAIN)
    for _ in range(2):
        _run(tmp_path / "letters", sink, _copying(errors=DeadLetter(LETTERS)))
    with LocalTopics(tmp_path / "letters" / "topics") as topics:
        (letter,) = topics.topic(LETTERS).read()
    assert ss.json.decode(letter.record.value) == value


@pytest.mark.spec("PRC-99")
def test_a_failure_that_is_no_records_stops_sources_and_sinks(tmp_path: Path) -> None:
    """With skip, a disk that was full, or a schema registry that was down, dropped each record."""
    works: list[bool] = []
    seen: list[Any] = []

    def key(row: dict[str, Any]) -> str:
        if not works:
            raise StorageError("the schema registry does not answer")
        return str(row["who"])

    def write(record: StoredRecord[Any, Any]) -> None:
        if len(works) < 2:
            raise StorageError("the disk is full")
        seen.append(record.record.value)

    rows = [record.value for record in _records(0, 3)]
    for said in ("'in-source' failed .* not to blame", "'out-sink' failed .* not to blame"):
        with pytest.raises(ProcessingError, match=said):
            _run(
                tmp_path,
                AtLeastOnce(write),
                _copying(errors="skip"),
                sources={"in": Items(rows, key=key)},
            )
        works.append(True)
    done = _run(
        tmp_path,
        AtLeastOnce(write),
        _copying(errors="skip"),
        sources={"in": Items(rows, key=key)},
    )

    assert (done.dropped, sorted(row["n"] for row in seen)) == (0, [0, 1, 2])


class _TextsWithoutColumns:
    """A serde of a user's that reads and writes value by value."""

    name = "texts-without-columns"
    sorted = False

    def encode(self, value: str) -> bytes:
        return ss.utf8.encode(value)

    def decode(self, data: bytes) -> str:
        return ss.utf8.decode(data)

    def encode_array(self, values: Any) -> Any:
        raise CapabilityNotSupportedError("no columns")

    decode_array = encode_array

    def arrow_type(self) -> Any:
        raise CapabilityNotSupportedError("no columns")


def _counted(key: Any) -> Topology:
    made = Topology("windows")
    kept = ss.Window("w", retention_ms=10, window_size_ms=10, key=ss.utf8, value=ss.int64)
    made.stream(IN).group_by_key().window(tumbling(10)).count(kept).to(
        Topic("out", key=ss.processing.windowed(key), value=ss.int64)
    )
    return made


@pytest.mark.spec("PRC-64", "PRC-91")
def test_keys_of_windows_are_structs(tmp_path: Path) -> None:
    """They were refused."""
    _append(tmp_path, _records(0, 1))
    _run(tmp_path, ParquetSink(tmp_path / "files"), _counted(ss.utf8))

    assert [row["key"] for row in _rows(tmp_path / "files")] == [
        {"key": "k0", "start_ms": 0, "end_ms": 10}
    ]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Each with the next step; a directory that is a file, too."""
    (tmp_path / "file").touch()
    _append(tmp_path, _records(0, 1))
    made = _counted(_TextsWithoutColumns())
    refused: list[tuple[type[Exception], str, Any, Topology | None]] = [
        (InvalidTypeError, "must be a ParquetSink", print, None),
        (InvalidTypeError, "takes a function", AtLeastOnce(7), None),  # type: ignore[arg-type]
        (InvalidTypeError, "pyarrow.Schema", ParquetSink(tmp_path, schema=7), None),
        (
            InvalidTypeError,
            "the sink's own",
            ParquetSink(tmp_path, schema=pa.schema([("key", pa.string())])),
            None,
        ),
        (InvalidArgumentError, "max_rows", ParquetSink(tmp_path, max_rows=0), None),
        (CapabilityNotSupportedError, "keys of the topic 'out'", ParquetSink(tmp_path), made),
        (StorageError, "file", ParquetSink(tmp_path / "file"), None),
    ]
    for number, (error, match, sink, topology) in enumerate(refused):
        with pytest.raises(error, match=match):
            run(
                topology or _copying(),
                state=tmp_path / f"state-{number}",
                topics=tmp_path / f"topics-{number}",
                sinks={"out": sink},
                until="idle",
                backend="memory",
            )
    with pytest.raises(InvalidArgumentError, match="writes no topic 'in'"):
        run(
            _copying(),
            state=tmp_path / "state",
            topics=tmp_path / "topics",
            sinks={"in": ParquetSink(tmp_path)},
        )


@pytest.mark.spec("PRC-65")
def test_a_function_gets_each_record_at_least_once(
    tmp_path: Path, armed: Callable[..., None]
) -> None:
    """In the order of its partition; after a crash those since the last commit again."""
    calls: list[StoredRecord[Any, Any]] = []
    sink = AtLeastOnce(calls.append)
    _append(tmp_path, _records(0, 10))
    _run(tmp_path, sink)
    first = list(calls)
    _append(tmp_path, _records(10, 10))

    def fail(_: Any) -> None:
        calls.append(_)
        if len(calls) == 15:
            raise Died

    with pytest.raises(Died):
        _run(tmp_path, AtLeastOnce(fail))
    again = len(calls)
    _run(tmp_path, sink)
    _run(tmp_path, sink)

    assert sorted(each.record.value["n"] for each in first) == list(range(10))
    places = [(each.partition, each.offset) for each in calls[again:]]
    assert len(places) == len(set(places)) == 10
    assert {each.record.value["n"] for each in calls} == set(range(20))
    for partition in (0, 1):
        offsets = [each.offset for each in first if each.partition == partition]
        assert offsets == sorted(offsets)


@pytest.mark.spec("PRC-59", "PRC-63")
def test_a_run_from_files_to_files_needs_no_topics(tmp_path: Path) -> None:
    """A source and a sink at once."""
    progress = run(
        _copying(),
        state=tmp_path / "state",
        topics=tmp_path / "topics",
        sources={"in": Items(_records(0, 30))},
        sinks={"out": ParquetSink(tmp_path / "out", schema=PLAIN)},
        until="idle",
        backend="memory",
        threads=2,
    )

    assert progress.processed == 30
    assert [row["n"] for row in _rows(tmp_path / "out")] == list(range(30))
