"""What is wrong with a state directory is said, with its name, and never read around."""

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from statestores.errors import (
    InvalidArgumentError,
    MalformedCheckpointError,
    StateStoreError,
    StoreCorruptedError,
    StoreNotFoundError,
    UnsupportedFormatError,
)
from statestores.migration import KafkaKind, KafkaStateDirectory
from statestores.migration.kafka.database import KafkaDatabase
from statestores.migration.kafka.offsets import parse_position
from statestores_conformance.many_cases import for_each

RowsOf: TypeAlias = Callable[..., list[dict[str, Any]]]
WriteDatabase: TypeAlias = Callable[..., Path]

pytestmark = [pytest.mark.usefixtures("no_descriptor_leaks"), pytest.mark.spec("MIG-13")]


def read_everything(directory: Path) -> list[str]:
    """Read all stores whose kind is certain, and return their names."""
    with KafkaStateDirectory(directory) as state:
        names = [store.name for store in state.stores() if store.kind]
        for name in names:
            state.offsets(name, 0)
            for batch in state.read(name, 0):
                batch.validate(full=True)
    return names


def tables(directory: Path) -> list[Path]:
    """Return the tables of the plain store."""
    return sorted((directory / "0_0" / "rocksdb" / "plain").glob("*.sst"))


def make_anew(file: Path, content: bytes | bytearray) -> None:
    """Give *file* another content: it is one of all tests."""
    file.unlink()
    file.write_bytes(content)


@pytest.mark.parametrize("place", [0.0, 0.1, 0.5, 0.9])
def test_a_damaged_table_is_noticed(older: Path, place: float) -> None:
    """A flipped byte anywhere: an error with the name of the database, or no wrong row."""
    for table in tables(older):
        content = bytearray(table.read_bytes())
        content[int(place * len(content))] ^= 0xFF
        make_anew(table, content)

    with pytest.raises(StoreCorruptedError, match="rocksdb/plain"):
        read_everything(older)


def test_a_cut_table_is_noticed(older: Path) -> None:
    """By its length already."""
    table = tables(older)[0]
    make_anew(table, table.read_bytes()[:-10])

    with pytest.raises(StoreCorruptedError, match=r"rocksdb/plain.*\.sst"):
        read_everything(older)


def test_a_missing_table_is_noticed(older: Path) -> None:
    """The error has its name in the source, not that of a link."""
    table = tables(older)[0]
    table.unlink()

    with pytest.raises(StoreCorruptedError, match=f"{table.parent}.*{table.name}"):
        read_everything(older)


def test_a_missing_manifest_is_noticed(older: Path) -> None:
    """CURRENT names it."""
    manifest = next(tables(older)[0].parent.glob("MANIFEST-*"))
    manifest.unlink()

    with pytest.raises(StateStoreError, match=str(manifest)):
        read_everything(older)


def test_tables_without_current_are_damage(older: Path) -> None:
    """RocksDB itself would begin an empty database there."""
    (tables(older)[0].parent / "CURRENT").unlink()

    with pytest.raises(StoreCorruptedError, match="the file CURRENT"):
        KafkaStateDirectory(older)


def test_a_database_that_was_never_finished_is_left_out(older: Path) -> None:
    """It has no rows, and is named among what was ignored."""
    half = older / "0_0" / "rocksdb" / "half"
    half.mkdir()
    (half / "000001.dbtmp").touch()
    with KafkaStateDirectory(older) as state:
        assert "half" not in state.names
        assert [(each.path, each.reason) for each in state.ignored] == [
            (half, "a database that was never finished")
        ]


def test_a_segment_with_an_unknown_name_is_refused(older: Path) -> None:
    """Its rows would be missing."""
    segment = older / "0_0" / "win.dow" / "win.dow.1700000700000"
    segment.rename(segment.with_name("win.dow.latest"))

    with pytest.raises(UnsupportedFormatError, match=r"win\.dow\.latest.*not that of a segment"):
        KafkaStateDirectory(older)


@pytest.mark.parametrize("name", ["session:1700000700000", "session-202311142225"])
def test_older_names_of_segments_are_known(older: Path, rows_of: RowsOf, name: str) -> None:
    """A colon, or the time in minutes: Kafka Streams renames them when it opens them."""
    whole = rows_of(older, "session")
    segment = older / "0_0" / "session" / "session.1700000700000"
    segment.rename(segment.with_name(name))

    assert sorted(map(repr, rows_of(older, "session"))) == sorted(map(repr, whole))


def test_what_is_no_store_is_named(older: Path) -> None:
    """Files of the application, and directories that a store of its own may have."""
    (older / "kafka-streams-process-metadata").write_text('{"processId":"x"}')
    (older / ".lock").touch()
    (older / "0_0" / ".checkpoint.tmp").touch()
    (older / "0_0" / "lucene").mkdir()
    (older / "0_0" / "lucene" / "index").mkdir()
    (older / "notes.txt").touch()
    with KafkaStateDirectory(older) as state:
        ignored = {each.path.name: each.reason for each in state.ignored}

    assert ignored == {
        "kafka-streams-process-metadata": "the process id",
        ".lock": "a lock",
        ".checkpoint.tmp": "left over from a crash",
        "lucene": "no store that Kafka Streams writes itself",
        "notes.txt": "not a part of Kafka Streams' state",
    }


def test_an_unknown_column_family_is_refused(older: Path, write_database: WriteDatabase) -> None:
    """Later versions have families for records with headers: rows would be missing."""
    shutil.rmtree(older / "0_0" / "rocksdb" / "plain")
    write_database(
        older / "0_0" / "rocksdb" / "plain", {"keyValueWithTimestampAndHeaders": {b"k": b"v"}}
    )

    with pytest.raises(UnsupportedFormatError, match="keyValueWithTimestampAndHeaders"):
        read_everything(older)


def test_a_malformed_checkpoint_is_named_with_its_line(older: Path) -> None:
    """As in an import of offsets alone."""
    file = older / "0_0" / ".checkpoint"
    make_anew(file, file.read_bytes()[:-1])
    with (
        KafkaStateDirectory(older) as state,
        pytest.raises(MalformedCheckpointError, match=f"{file}', line 12"),
    ):
        state.offsets("plain", 0)


@for_each(
    ("stored", "error"),
    [
        (b"", StoreCorruptedError),
        (b"\x01" + bytes(39), UnsupportedFormatError),
        (b"\x00\x00\x00", StoreCorruptedError),
        (b"\x00" + struct.pack(">i", -1), StoreCorruptedError),
        (b"\x00" + struct.pack(">ii", 1, -1), StoreCorruptedError),
        (b"\x00" + struct.pack(">ii2siiq", 1, 2, b"in", 1, 0, -1), StoreCorruptedError),
        (b"\x00" + struct.pack(">ii", 1, 5) + b"in", StoreCorruptedError),
        (
            b"\x00" + struct.pack(">ii", 1, 2) + b"\xff\xff" + struct.pack(">i", 0),
            StoreCorruptedError,
        ),
    ],
)
def test_a_malformed_position_is_refused(stored: bytes, error: type[StateStoreError]) -> None:
    """Cut anywhere, or of another version."""
    with pytest.raises(error, match=r"the position|the offsets"):
        parse_position(stored, Path("database"))


def test_a_partition_that_is_there_twice_is_refused(older: Path) -> None:
    """Two subtopologies cannot have a store of one name: one is left over."""
    shutil.copytree(older / "0_0", older / "1_0")

    with pytest.raises(InvalidArgumentError, match="partition 0 of the store"):
        KafkaStateDirectory(older)


@pytest.mark.parametrize("name", ["nowhere", "empty", "0_0"])
def test_what_is_no_application_is_refused(older: Path, name: str) -> None:
    """The message says what was expected."""
    (older / "empty").mkdir()

    with pytest.raises(
        (StoreNotFoundError, InvalidArgumentError),
        match=r"check the path|directory of an application|give the application's",
    ):
        KafkaStateDirectory(older / name)


def test_several_applications_are_refused(older: Path) -> None:
    """One has to be named."""
    shutil.copytree(older, older.parent / "second")

    with pytest.raises(InvalidArgumentError, match="fixture, second"):
        KafkaStateDirectory(older.parent)


def test_a_row_that_does_not_fit_is_refused(older: Path, write_database: WriteDatabase) -> None:
    """Behind the sample that told the kind, too."""
    path = older / "0_0" / "rocksdb" / "plain"
    shutil.rmtree(path)
    rows = {b"%06d" % number: struct.pack(">q", number) + b"v" for number in range(1_000)}
    rows[b"short"] = b"1234567"
    write_database(path, {"keyValueWithTimestamp": rows})
    with KafkaStateDirectory(older) as state:
        assert state.store("plain").kind is KafkaKind.TIMESTAMPED_KEY_VALUE
        with pytest.raises(StoreCorruptedError, match=r"b'short' in .*plain.*too short"):
            list(state.read("plain", 0))


def test_flipped_bits_never_change_a_row(tmp_path: Path, write_database: WriteDatabase) -> None:
    """Wherever one is flipped: an error, and before it rows that are right."""
    rows = {b"key-%05d" % number: b"value-%d" % (number * number) for number in range(2_000)}
    path = write_database(tmp_path / "database", {"default": rows})
    (table,) = path.glob("*.sst")
    whole = table.read_bytes()
    chance = random.Random(20_261_120)
    for _ in range(60):
        content = bytearray(whole)
        content[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        table.write_bytes(content)
        read: list[tuple[bytes, bytes]] = []
        with (
            pytest.raises(StoreCorruptedError, match=str(path)),
            KafkaDatabase(path) as database,
        ):
            read.extend(database.rows())

        assert read == list(rows.items())[: len(read)]
