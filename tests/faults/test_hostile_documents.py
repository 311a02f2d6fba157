"""Every JSON document that we read, as a broken disk or someone who wants harm leaves it.

A user unpacked a state root that a colleague had sent, and `statestores info` ended in a
``RecursionError``; another one, with a partition count of a million millions, never ended. Names of
stores went into paths unchecked, so ``../../outside`` made engines outside of the root. Now one
strict reader reads them all: what it does not take is `StoreCorruptedError` with the path.
"""

import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.arrow.snapshots.checked_json import with_checksum
from statestores.arrow.snapshots.manifest import parse_manifest
from statestores.arrow.snapshots.native_manifest import (
    NativeFile,
    NativeManifest,
    parse_native_manifest,
    render_native_manifest,
)
from statestores.arrow.snapshots.snapshot import write_snapshot
from statestores.changelog import FileChangelog
from statestores.errors import (
    InvalidArgumentError,
    StateStoreError,
    StoreCorruptedError,
    StoreLockedError,
)
from statestores.files.directory_lock import LOCK_FILE, DirectoryLock
from statestores.files.lock_owner import lock_owner
from statestores.opening import backend_of
from statestores.processing import Graph, Topic, Topology, describe
from statestores.processing.local.identity import claim
from statestores.processing.topology import differences
from statestores.root_document import TOPOLOGY_NOTE
from statestores.root_document import with_checksum as with_crc32
from statestores.semantics import open_on_engine
from statestores.semantics.rows.layout import POSITION_ROW, SPECIFICATION_ROW
from statestores.serving.errors_on_wire import from_bytes
from statestores.serving.flight.point_answers import decoded_document
from statestores.spi.durability import Durability
from statestores.staging.operator_file import RECORD_FILE, read_record
from statestores.staging.recorded_commits import _has
from statestores.staging.write_intent import _checksum as intent_sum
from statestores.staging.write_intent import read_intent
from statestores.tasks.commits.task_commit import finish_commit
from statestores.topology_note import noted_topology
from statestores_memory import MemoryEngine
from statestores_sqlite import table_file

MUTANTS = 80
SOAK_MUTANTS = 20_000
SEED = 20_250_713

_RAW = "@raw@"

BOMB = 100_000

NAMES = ["../../outside", "/absolute", "", "a\0b", "-1", "01", "9" * 30]
"""Names that take the place of a name."""

HOSTILE = [
    *("null", "true", "false", "-1", "0", "-0", "1", "1.5", "1e3", "1e400", "-1e400", "NaN"),
    *("Infinity", "-Infinity", str(10**12), str(1 << 63), str(-(1 << 63)), "9" * 5_000),
    *('""', '"a\\u0000b"', '"../../outside"', '"/absolute"', '"."', '".."', '"a/b"', '"\\ud800"'),
    *('"1"', '"01"', '"-1"', '"\\u0661"', '"' + "x" * 70_000 + '"', '"os:system"', '"bytes"'),
    *("[]", "{}", "[[]]", '[{"a":1}]', '{"a":{"a":{}}}', "[1,2,3]", '[["t",0,1,2]]', '["t"]'),
    *("[" * BOMB + "]" * BOMB, '{"a":' * BOMB + "1" + "}" * BOMB, "[" * 900 + "]" * 900),
]
"""Texts of JSON, some of them none, that take the place of a value."""


@dataclass(frozen=True, slots=True)
class Document:
    """A kind of document: one that is right, and what reads it."""

    path: Path
    read: Callable[[Path], object]
    seal: Callable[[dict[str, Any]], dict[str, Any]] = lambda content: content
    spell: Callable[[Any], bytes] = lambda content: json.dumps(content).encode()


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Document]:
    """Return every kind of document, each in a state root of its own making."""
    place = tmp_path_factory.mktemp("documents")
    root = ss.StateRoot.create(place / "root")
    staged = {"name": "a-0000-0.arrow", "partition": 0, "rows": 1, "bytes": 9, "crc32c": 7}
    specification = ss.Window("windows", retention_ms=100, window_size_ms=10)
    root.add_store(specification, partitions=2)
    root.add_store(ss.TimestampedKeyValue("counts", ttl_ms=7), partitions=1)
    with ss.open_store(place / "store", ss.KeyValue("counts"), backend="sqlite") as store:
        store.put(b"k", b"v")
        store.commit({ss.TopicPartition("log", 0): 3})
        snapshot = write_snapshot(store, place / "snapshots").path
    native = place / "native" / "native.json"
    native.parent.mkdir()
    native.write_bytes(
        render_native_manifest(
            NativeManifest(
                offset=3,
                snapshot_crc32c=7,
                backend="sqlite",
                driver="SQLite 3",
                files=(NativeFile(name="engine.db", bytes=9, crc32c=8),),
                created_at_ms=1,
                library_version="1",
            )
        )
    )
    writes = place / "root" / "counts" / ".writes"
    _write(
        writes / "intent.json",
        {
            "format": 3,
            "write_id": "w1",
            "overwrite": False,
            "finished": False,
            "partitions": {"0": {"base_offset": 0, "end_offset": 1, "files": [staged]}},
            "batches": {"stream": 4},
        },
    )
    commit = place / "task" / "commit" / "commit.json"
    _write(commit, {"format": 1, "base_offsets": {"counts": 5, "windows": 6}})
    record = place / "operator" / RECORD_FILE
    _write(
        record,
        {
            "format": 1,
            "operator": "totals",
            "query": "q",
            "number": 3,
            "write_id": "q-3",
            "stores": {"counts": {"end_offsets": {"0": 4}, "files": [staged]}},
            "outputs": [staged],
            "columns": "a long",
        },
    )
    note = place / "topology" / TOPOLOGY_NOTE
    shop = Topology("shop")
    words = shop.stream(Topic("words", key=ss.utf8, value=ss.int64, partitions=1))
    counted = words.group_by(lambda record: record.key).count(
        ss.KeyValue("counted", key=ss.utf8, value=ss.int64)
    )
    counted.suppress(wait_ms=1_000).to(Topic("out", key=ss.utf8, value=ss.int64))
    graph = shop.build()
    claim(note.parent.parent, graph)
    row = place / "row.json"
    _write(row, dict(specification.describe()))
    position = place / "position.json"
    position.write_text('[["topic", 0, 7], ["other", 1, 8]]')
    return {
        "engine.json": Document(
            place / "store" / "engine.json", lambda path: backend_of(path.parent)
        ),
        "statestores.json": Document(
            root.path / "statestores.json",
            _read_root,
            with_crc32,
        ),
        "intent.json": Document(
            writes / "intent.json",
            lambda path: read_intent(path.parent.parent),
            lambda content: {**content, "crc32c": intent_sum(content)},
        ),
        "manifest.json": Document(
            snapshot / "manifest.json",
            lambda path: parse_manifest(path.read_bytes(), repr(str(path))),
            spell=_spelled,
        ),
        "native.json": Document(
            native,
            lambda path: parse_native_manifest(path.read_bytes(), repr(str(path))),
            spell=_spelled,
        ),
        "commit.json": Document(commit, lambda path: finish_commit(path.parent.parent, root, 0)),
        "batch.json": Document(record, lambda path: read_record(path.parent), with_crc32),
        "topology.json": Document(
            note, lambda path: _compared(path.parent.parent, graph), with_crc32
        ),
        "specification row": Document(row, lambda path: _open_with(path, SPECIFICATION_ROW)),
        "position row": Document(position, lambda path: _open_with(path, POSITION_ROW)),
    }


def _compared(root: Path, graph: Graph) -> None:
    """Compare the note of a topology in *root* with *graph*."""
    note = noted_topology(root)
    assert note is not None
    differences(note.topology, describe(graph))


@pytest.mark.spec("LAY-24")
@pytest.mark.timeout(300)
def test_a_hostile_document_is_refused_by_name(documents: dict[str, Document]) -> None:
    """Whatever is in a document, it is read, or refused in our words with its path."""
    assert _violations(documents, MUTANTS) == []


@pytest.mark.spec("LAY-25")
def test_a_store_is_not_outside_of_its_root(tmp_path: Path) -> None:
    """A name in ``statestores.json`` was a path: ``../../outside`` made an engine out there."""
    root = ss.StateRoot.create(tmp_path / "a" / "root")
    root.add_store(ss.KeyValue("s"), partitions=1)
    file = root.path / "statestores.json"
    entry = json.loads(file.read_bytes())["stores"]["s"]
    for name in ("../../outside", str(tmp_path / "absolute"), "..", "other", "OWNER.lock"):
        _write(file, {"format": 1, "stores": {name: entry}})

        with pytest.raises(StoreCorruptedError, match=re.escape(str(file))):
            ss.open_logged_store(root.path, name, 0, backend="sqlite")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


@pytest.mark.spec("LAY-25")
@pytest.mark.parametrize("name", ["statestores.json", "OWNER.lock"])
def test_a_store_is_not_called_as_a_file_of_the_root(tmp_path: Path, name: str) -> None:
    """It was added, and its first opening failed on a directory that is a file."""
    root = ss.StateRoot.create(tmp_path)

    with pytest.raises(InvalidArgumentError, match="another name"):
        root.add_store(ss.KeyValue(name), partitions=1)


@pytest.mark.spec("LAY-24")
def test_a_document_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    """Opening waited for somebody to write into it, for ever."""
    os.mkfifo(tmp_path / "engine.json")

    with pytest.raises(StoreCorruptedError, match=r"engine\.json"):
        ss.open_existing(tmp_path)


@pytest.mark.spec("LAY-24")
@pytest.mark.parametrize("pattern", ["changelog/*.log", "snapshots/*/manifest.json"])
def test_a_part_of_a_partition_that_is_a_pipe_is_refused(tmp_path: Path, pattern: str) -> None:
    """A segment and a manifest were waited for as well: neither is read as a document is."""
    root = ss.StateRoot.create(tmp_path)
    root.add_store(ss.KeyValue("counts"), partitions=1)
    with ss.open_logged_store(root, "counts", 0, backend="sqlite") as logged:
        logged.store.put(b"k", b"v")
        logged.commit()
        logged.snapshot()
    with FileChangelog.open(root.partition("counts", 0).changelog, "key-value") as log:
        log.seal()
        log.delete_before(1)
    partition = root.partition("counts", 0).path
    shutil.rmtree(partition / "engine")
    found = min(partition.glob(pattern))
    found.unlink()
    os.mkfifo(found)

    with pytest.raises(StateStoreError, match=re.escape(str(partition))):
        ss.open_logged_store(root, "counts", 0)


@pytest.mark.spec("LAY-24")
def test_what_is_nested_too_deeply_is_unreadable_like_anything_else(tmp_path: Path) -> None:
    """A note that is looked at for what it may say, and the answer of a server.

    Whoever opened a locked store whose ``OWNER.lock`` had been written over with brackets got a
    ``RecursionError``, and so did a client of what is no server of ours.
    """
    deep = b"[" * 4_000
    lock = DirectoryLock.acquire(tmp_path)
    (tmp_path / LOCK_FILE).write_bytes(deep)
    with pytest.raises(StoreLockedError, match="has not signed yet"):
        DirectoryLock.acquire(tmp_path)
    lock.release()
    assert lock_owner(tmp_path) is None
    assert str(from_bytes(deep, "no answer of ours")) == "no answer of ours"
    with pytest.raises(StateStoreError, match="what is no JSON"):
        decoded_document(deep)
    (tmp_path / table_file.FILE).write_bytes(deep)
    with pytest.raises(StoreCorruptedError, match="does not name a table"):
        table_file.table_of(tmp_path, None)
    record = tmp_path / "commit"
    record.write_bytes(bytes(12) + len(deep).to_bytes(4, "big") + deep)
    assert _has(record, "counts")


@pytest.mark.soak
@pytest.mark.spec("LAY-24")
@pytest.mark.timeout(36_000)
def test_many_hostile_documents_are_refused_by_name(documents: dict[str, Document]) -> None:
    """The same for many more."""
    assert _violations(documents, SOAK_MUTANTS) == []


def _spelled(content: Any) -> bytes:
    return with_checksum(content) if isinstance(content, dict) else json.dumps(content).encode()


def _violations(documents: dict[str, Document], count: int) -> list[str]:
    chosen = random.Random(SEED)
    found = []
    for name, document in documents.items():
        right = document.path.read_bytes()
        content = json.loads(right)
        if isinstance(content, dict):
            content.pop("crc32c", None)
        for data in (*_torn(right), *(_mutated(document, content, chosen) for _ in range(count))):
            document.path.parent.mkdir(parents=True, exist_ok=True)
            document.path.write_bytes(data)
            try:
                document.read(document.path)
            except StateStoreError as error:
                # A row has the path of its engine, which the opener adds.
                if str(document.path.parent) not in str(error) and not name.endswith("row"):
                    found.append(f"{name}: no path: {data[:200]!r}: {error!r}"[:600])
            except Exception as error:  # noqa: BLE001  # to tell of each
                found.append(f"{name}: {data[:200]!r}: {error!r}"[:600])
        document.path.parent.mkdir(parents=True, exist_ok=True)
        document.path.write_bytes(right)
    return found


def _torn(right: bytes) -> Iterator[bytes]:
    """Yield what a disk, an editor or a program of another kind makes of a document."""
    yield from (
        b"",
        b"\0" * len(right),
        right[: len(right) // 2],
        right + right,
        b"\xef\xbb\xbf" + right,
    )
    yield right.decode().encode("utf-16")
    yield right.replace(b'"', b'"\xff', 1)
    yield right.replace(b"{", b'{"format": 1, "format": 1, ', 1)
    yield from (text.encode() for text in HOSTILE)
    for at in range(0, len(right), max(1, len(right) // 64)):
        yield right[:at] + bytes((right[at] ^ (1 << at % 8),)) + right[at + 1 :]


def _mutated(document: Document, content: Any, chosen: random.Random) -> bytes:
    """Return the document with some of its fields gone, renamed or hostile, and its sum right."""
    copy = json.loads(json.dumps(content))
    raw = [chosen.choice(HOSTILE) for _ in range(chosen.choice([1, 1, 1, 2]))]
    for number in range(len(raw)):
        _change(copy, chosen, f"{_RAW}{number}")
    values: list[Any] = []
    for text in raw:
        try:
            values.append(json.loads(text))
        except (ValueError, RecursionError):
            values.append(None)
    try:
        whole = _placed(copy, values)
        return document.spell(document.seal(whole) if isinstance(whole, dict) else whole)
    except (ValueError, RecursionError):
        text = json.dumps(copy)
        for number, hostile in enumerate(raw):
            text = text.replace(f'"{_RAW}{number}"', hostile if hostile[0] != '"' else '"x"')
        return text.encode()


def _change(content: Any, chosen: random.Random, mark: str) -> None:
    """Change one value or name somewhere in *content*."""
    places = list(_places(content))
    if not places:
        return
    holder, key = chosen.choice(places)
    match chosen.randrange(5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[
                chosen.choice(["../../outside", "/absolute", "", "a\0b", "-1", "01", "9" * 30])
            ] = holder.pop(key)
        case 2 if isinstance(holder, list):
            holder.append(holder[key])
        case _:
            holder[key] = mark


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    children = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in list(children):
        yield content, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _placed(content: Any, values: list[Any]) -> Any:
    if isinstance(content, dict):
        return {name: _placed(value, values) for name, value in content.items()}
    if isinstance(content, list):
        return [_placed(value, values) for value in content]
    if isinstance(content, str) and content.startswith(_RAW):
        return values[int(content.removeprefix(_RAW))]
    return content


def _read_root(path: Path) -> None:
    root = ss.StateRoot.open(path.parent)
    for name in root.stores:
        inside = root.partition(name, 0).path.resolve()
        assert inside.is_relative_to(root.path.resolve()), inside


def _open_with(path: Path, row: bytes) -> None:
    """Open a store of which one row is what the file *path* holds."""
    with MemoryEngine.open("") as engine:
        wanted = ss.Window("windows", retention_ms=100, window_size_ms=10)
        open_on_engine(engine, wanted, durability=Durability.PROCESS_CRASH)
        engine.apply({row: path.read_bytes()}, Durability.PROCESS_CRASH)
        _ = open_on_engine(engine, wanted, durability=Durability.PROCESS_CRASH).position


def _write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
