"""Sources of the local runner: resumption, files that grow or come later, and bad input."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dying import Died, die

import statestores as ss
from statestores import failpoints
from statestores.errors import InvalidArgumentError, InvalidTypeError, ProcessingError
from statestores.processing import (
    DeadLetter,
    LocalTopics,
    Processor,
    Record,
    Topic,
    Topology,
    run,
)
from statestores.processing.local import Items, JsonLines, ParquetFiles, plan_reset
from statestores.processing.local.edges import SOURCES_DIRECTORY
from statestores.processing.local.sources import file_reader

LINES = Topic("lines", key=ss.utf8, value=ss.json)
OUT = Topic("out", key=ss.utf8, value=ss.json)
LETTERS = Topic("letters")

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture(autouse=True)
def _looks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a source look for files whenever it has nothing to read."""
    monkeypatch.setattr(file_reader, "LOOK_SECONDS", 0.0)


def _copying(**settings: Any) -> Topology:
    made = Topology("copying", **settings)
    made.stream(LINES).to(OUT)
    return made


def _run(directory: Path, source: Any, topology: Topology | None = None, **more: Any) -> Any:
    return run(
        topology or _copying(),
        state=directory / "state",
        topics=directory / "topics",
        sources={"lines": source},
        **{"until": "idle", "backend": "memory", **more},
    )


def _read(directory: Path, topic: Topic[Any, Any] = OUT) -> list[Any]:
    with LocalTopics(directory / "topics") as topics:
        return [each.record for each in topics.topic(topic).read()]


def _values(directory: Path) -> list[Any]:
    return [each.value["n"] for each in _read(directory)]


def _line(number: int) -> str:
    return json.dumps({"user": f"u{number % 3}", "at": {"ms": number * 10}, "n": number})


def _write(path: Path, numbers: range) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{_line(number)}\n" for number in numbers)


@pytest.mark.spec("PRC-59", "PRC-60", "PRC-61")
@pytest.mark.parametrize("what", ["file", "directory", "pattern"])
def test_lines_are_read_once_whatever_files_grow_and_come(tmp_path: Path, what: str) -> None:
    """A file goes on where it was, a new one comes after those that are there, in any order."""
    files = tmp_path / "in"
    paths = {"file": files / "b.jsonl", "directory": files, "pattern": files / "*.jsonl"}
    source = JsonLines(paths[what], key="user", time=lambda row: row["at"]["ms"])
    _write(files / "b.jsonl", range(5))
    _run(tmp_path, source)
    _run(tmp_path, source)
    _write(files / "b.jsonl", range(5, 7))
    if what != "file":
        _write(files / "a.jsonl", range(7, 9))
        (files / "_c.txt").write_text("no lines")
    _run(tmp_path, source)

    found = _read(tmp_path)
    assert sorted(each.value["n"] for each in found) == list(range(7 if what == "file" else 9))
    assert [each.value["n"] for each in found[:5]] == [0, 1, 2, 3, 4]
    assert {(each.key, each.time_ms) for each in found} == {
        (f"u{each.value['n'] % 3}", each.value["n"] * 10) for each in found
    }


@pytest.mark.spec("PRC-61")
def test_a_last_line_counts_when_it_is_whole(tmp_path: Path) -> None:
    """Without its newline an object is whole or not; a number may always grow."""
    path = tmp_path / "grows.jsonl"
    source = JsonLines(path, value=lambda row: {"n": row})
    seen = []
    for text in ('{"a": 1}\n\n["x', '"]', "\n7", "1", "\n  \n"):
        with path.open("a") as file:
            file.write(text)
        _run(tmp_path, source)
        seen.append(_values(tmp_path))

    one, two = [{"a": 1}], [{"a": 1}, ["x"]]
    assert seen == [one, two, two, two, [*two, 71]]


@pytest.mark.spec("PRC-60")
def test_parquet_goes_on_within_a_file(tmp_path: Path, armed: Callable[..., None]) -> None:
    """At any row, of any row group; what dies before its commit is read again."""
    files = tmp_path / "in"
    files.mkdir()
    rows = [{"n": number, "at": number * 10} for number in range(25)]
    table = pa.Table.from_pylist(rows, pa.schema([("n", pa.int64()), ("at", pa.timestamp("ms"))]))
    pq.write_table(table, files / "a.parquet", row_group_size=10)
    source = ParquetFiles(files, key=lambda row: str(row["n"] % 4), value=_number, time="at")
    for at, failpoint in ((1, "task.recording"), (3, "task.recorded"), (2, "task.output-appended")):
        armed(failpoint, die, at=at)
        with pytest.raises(Died):
            _run(tmp_path, source, commit_records=3)
        failpoints.disarm()
    pq.write_table(table.slice(0, 2), files / "b.parquet")
    _run(tmp_path, source)

    assert _values(tmp_path) == [*range(25), 0, 1]
    assert [each.time_ms for each in _read(tmp_path)][:25] == [row["at"] for row in rows]


def _number(row: dict[str, Any]) -> dict[str, Any]:
    return {"n": row["n"]}


@pytest.mark.spec("PRC-62")
@pytest.mark.parametrize("make", [list, iter, lambda items: lambda first: list(items)[first:]])
def test_items_go_on_behind_those_that_are_committed(
    tmp_path: Path, make: Callable[[Any], Any]
) -> None:
    """A list, an iterator that begins anew, and a function of how many there were."""
    for count in (3, 3, 7):
        records = [Record(f"k{number}", {"n": number}, number) for number in range(count)]
        _run(tmp_path, Items(make(records)))

    assert [(each.key, each.value["n"], each.time_ms) for each in _read(tmp_path)] == [
        (f"k{number}", number, number) for number in range(7)
    ]


@pytest.mark.spec("PRC-62")
def test_fewer_items_than_are_committed_are_refused(tmp_path: Path) -> None:
    """They are others than before."""
    _run(tmp_path, Items([{"n": 1}, {"n": 2}]))

    with pytest.raises(InvalidArgumentError, match="has 1 items, and 2 are committed"):
        _run(tmp_path, Items([{"n": 1}]))


@pytest.mark.spec("PRC-59")
@pytest.mark.parametrize("by", ["key", "file"])
def test_records_go_to_the_partition_of_their_key_or_of_their_file(tmp_path: Path, by: Any) -> None:
    """And without key by the file, in the order of its lines."""
    for name in "abcdef":
        _write(tmp_path / "in" / f"{name}.jsonl", range(6))
    where: dict[Any, set[int]] = {}
    topology = Topology("placed")
    places = topology.stream(LINES).process(_Places, key=ss.utf8, value=ss.json)
    places.to(OUT)
    _run(tmp_path, JsonLines(tmp_path / "in", key="user", partition_by=by), topology, partitions=3)
    for each in _read(tmp_path):
        where.setdefault(each.key, set()).add(each.value["partition"])

    assert len(where) == 3
    assert max(map(len, where.values())) == (1 if by == "key" else 3)


class _Places(Processor[str, Any, str, Any]):
    """Says of each record in which partition it was."""

    def process(self, record: Record[str, Any]) -> None:
        """Say it."""
        self.forward(record.with_value({"partition": self.context.partition}))


@pytest.mark.spec("PRC-11", "PRC-59")
@pytest.mark.parametrize("threads", [1, 2])
def test_sources_are_taken_together_by_the_times_of_their_records(
    tmp_path: Path, threads: int
) -> None:
    """A task waits for a topic that a source still fills, so a join depends on the data alone."""
    prices = Topic("prices", key=ss.utf8, value=ss.json)
    shop = Topology("shop")
    table = shop.table(prices, ss.KeyValue("prices", key=ss.utf8, value=ss.json))
    shop.stream(LINES).join(table, lambda one, other: [one["n"], other["n"]], value=ss.json).to(OUT)
    rates = (Record("u", {"n": at}, at * 10) for at in range(300))
    lines = (Record("u", {"n": at}, at * 10 + 5) for at in range(300))
    run(
        shop,
        state=tmp_path / "state",
        topics=tmp_path / "topics",
        sources={"lines": Items(lines), "prices": Items(rates)},
        until="idle",
        backend="memory",
        threads=threads,
        commit_records=50,
    )

    assert [each.value for each in _read(tmp_path)] == [[at, at] for at in range(300)]


@pytest.mark.spec("PRC-37", "PRC-59")
def test_a_source_fills_a_global_table_before_it_is_joined(tmp_path: Path) -> None:
    """All of it."""
    names = Topic("names", key=ss.utf8, value=ss.json)
    shop = Topology("global")
    table = shop.global_table(names, ss.KeyValue("names", key=ss.utf8, value=ss.json))
    shop.stream(LINES).join(table, lambda _, other: other, key="key", value=ss.json).to(OUT)
    run(
        shop,
        state=tmp_path / "state",
        topics=tmp_path / "topics",
        sources={
            "lines": Items([Record(f"u{at}", {"n": 0}, 0) for at in range(9)]),
            "names": Items([Record(f"u{at}", {"n": at}, 9) for at in range(9)]),
        },
        until="idle",
        backend="memory",
    )

    assert _values(tmp_path) == list(range(9))


GOOD = '{"user": "u", "at": 1, "n": 0}\n'
_BAD_LINES: dict[str, tuple[str | bytes, str]] = {
    "not JSON": ("{nonsense}\n", "SerializationError"),
    "no object": ("17\n", "there is no field 'user'"),
    "missing field": ('{"at": 1}\n', "the field 'user' is missing"),
    "no text": ('{"user": 7, "at": 1}\n', "SerializationError"),
    "no time": ('{"user": "u", "at": "noon"}\n', "InvalidTimeError"),
    "negative time": ('{"user": "u", "at": -1}\n', "InvalidTimeError"),
    "no UTF-8": (b'{"user": "\xff", "at": 1}\n', "SerializationError"),
}


@pytest.mark.spec("PRC-17", "PRC-18", "PRC-19", "PRC-61")
@pytest.mark.parametrize("bad", _BAD_LINES)
def test_bad_lines_are_dealt_with_as_the_policy_says(tmp_path: Path, bad: str) -> None:
    """Fail and say where, drop and count, or send to the dead letters as they were."""
    text, reason = _BAD_LINES[bad]
    data = text if isinstance(text, bytes) else text.encode()
    path = tmp_path / "in.jsonl"
    path.write_bytes(GOOD.encode() + data + GOOD.encode())
    source = JsonLines(path, key="user", time="at")

    with pytest.raises(ProcessingError, match=reason) as caught:
        _run(tmp_path / "fail", source)
    said = str(caught.value)
    assert f"'lines-source' failed at {str(path)!r}, offset 1, byte {len(GOOD)}" in said
    assert "topic 'lines', partition 0" in said
    assert _read(tmp_path / "fail") == []

    skipped = _run(tmp_path / "skip", source, _copying(errors="skip"))
    assert (skipped.dropped, _values(tmp_path / "skip")) == (1, [0, 0])

    for _ in range(2):
        _run(tmp_path / "letters", source, _copying(errors=DeadLetter(LETTERS)))
    (letter,) = _read(tmp_path / "letters", LETTERS)
    headers = dict(letter.headers)
    assert letter.value == data.strip()
    assert headers["__streams.errors.offset"] == b"1"
    assert headers["__streams.errors.file"].decode() == str(path)
    assert _values(tmp_path / "letters") == [0, 0]


def _shrunk(path: Path) -> None:
    path.write_text(GOOD)


def _rewritten(path: Path) -> None:
    path.write_text(path.read_text().replace('"n": 0', '"n": 9') + GOOD)


def _garbage(path: Path) -> None:
    path.with_suffix(".parquet").write_bytes(b"PAR1 this is none PAR1")


def _empty(path: Path) -> None:
    path.with_suffix(".parquet").touch()


def _torn(path: Path) -> None:
    pq.write_table(pa.table({"n": list(range(9_999))}), path.with_suffix(".parquet"))
    data = path.with_suffix(".parquet").read_bytes()
    path.with_suffix(".parquet").write_bytes(data[: len(data) // 2])


def _replaced(path: Path) -> None:
    path = path.with_suffix(".parquet")
    pq.write_table(pa.table({"n": [5, 6, 7]}), path)


_BAD_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "shrunk": (_shrunk, "it has shrunk"),
    "rewritten": (_rewritten, "has changed before byte"),
    "garbage": (_garbage, "is no Parquet file that can be read"),
    "empty": (_empty, "is no Parquet file that can be read"),
    "torn": (_torn, "is no Parquet file that can be read"),
    "replaced": (_replaced, "a Parquet file does not change"),
}


@pytest.mark.spec("PRC-61")
@pytest.mark.parametrize("bad", _BAD_FILES)
def test_bad_files_are_dealt_with_as_the_policy_says(tmp_path: Path, bad: str) -> None:
    """Named in the message; or left alone, and counted once however many runs there are."""
    spoil, reason = _BAD_FILES[bad]
    files = tmp_path / "in"
    files.mkdir()
    path = files / "a.jsonl"
    source: Any = JsonLines(files)
    if spoil in (_garbage, _empty, _torn, _replaced):
        source = ParquetFiles(files)
        pq.write_table(
            pa.table({"n": [0]}), files / ("a.parquet" if bad == "replaced" else "0.parquet")
        )
        path = files / "a"
    else:
        path.write_text(GOOD * 2)
    skipping = _copying(errors="skip")
    for name, topology in (("fail", None), ("skip", skipping)):
        _run(tmp_path / name, source, topology)
    spoil(path)

    with pytest.raises(ProcessingError, match=reason) as caught:
        _run(tmp_path / "fail", source)
    assert f"failed at {str(files)!r}"[:-1] in str(caught.value)
    before = _values(tmp_path / "skip")
    dropped = [_run(tmp_path / "skip", source, skipping).dropped for _ in range(2)]
    assert (dropped, _values(tmp_path / "skip")) == ([1, 0], before)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_read_once_it_may(tmp_path: Path) -> None:
    """With the policy to skip; else the run ends and says so."""
    path = tmp_path / "in.jsonl"
    path.write_text(GOOD)
    path.chmod(0)

    with pytest.raises(ProcessingError, match="Permission denied"):
        _run(tmp_path / "fail", JsonLines(path))
    assert _run(tmp_path / "skip", JsonLines(path), _copying(errors="skip")).dropped == 1
    path.chmod(0o600)
    for name in ("fail", "skip"):
        _run(tmp_path / name, JsonLines(path), _copying(errors=name))
        assert _values(tmp_path / name) == [0]


def test_files_without_records_are_no_error(tmp_path: Path) -> None:
    """No lines, no rows, and no files that match."""
    (tmp_path / "empty.jsonl").touch()
    pq.write_table(pa.table({"n": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    for number, source in enumerate(
        (JsonLines(tmp_path), ParquetFiles(tmp_path), JsonLines(tmp_path / "*.none"), Items([]))
    ):
        _run(tmp_path / str(number), source)

        assert _read(tmp_path / str(number)) == []


@pytest.mark.spec("PRC-59")
def test_what_does_not_fit_is_refused_before_anything_is_opened(tmp_path: Path) -> None:
    """Each with the next step."""
    lines = tmp_path / "in.jsonl"
    lines.write_text(GOOD)
    refused: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (InvalidArgumentError, "reads no topic 'other'", {"sources": {"other": JsonLines(lines)}}),
        (InvalidArgumentError, "reads no topic 'out'", {"sources": {"out": JsonLines(lines)}}),
        (InvalidTypeError, "must be a JsonLines", {"sources": {"lines": "in.jsonl"}}),
        (InvalidArgumentError, "there is no", {"sources": {"lines": JsonLines(tmp_path / "no")}}),
        (
            InvalidArgumentError,
            "partition_by",
            {"sources": {"lines": JsonLines(lines, partition_by="x")}},  # type: ignore[arg-type]
        ),
        (InvalidTypeError, "key must be", {"sources": {"lines": JsonLines(lines, key=7)}}),  # type: ignore[arg-type]
        (InvalidArgumentError, "key must be", {"sources": {"lines": JsonLines(lines, key="a.")}}),
        (InvalidTypeError, "takes an iterable", {"sources": {"lines": Items(7)}}),  # type: ignore[arg-type]
        (InvalidArgumentError, "scheme", {"sources": {"lines": JsonLines("file:///x.jsonl")}}),
    ]
    for error, match, settings in refused:
        with pytest.raises(error, match=match):
            run(
                _copying(),
                state=tmp_path / "state",
                topics=tmp_path / "topics",
                until="idle",
                backend="memory",
                **settings,
            )


@pytest.mark.spec("PRC-59")
def test_a_state_that_is_removed_begins_anew(tmp_path: Path) -> None:
    """What its source has read went with it, and its topics stay where they are."""
    path = tmp_path / "in.jsonl"
    path.write_text(GOOD)
    _run(tmp_path, JsonLines(path))
    assert (tmp_path / "state" / SOURCES_DIRECTORY / "lines" / "0").is_dir()
    assert not (tmp_path / "topics" / "lines").exists()
    (tmp_path / "state").rename(tmp_path / "old")
    plan_reset(_copying(), state=tmp_path / "state", topics=tmp_path / "topics").carry_out()
    _run(tmp_path, JsonLines(path))

    assert _values(tmp_path) == [0, 0]
