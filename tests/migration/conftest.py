"""State directories that Kafka Streams wrote, and what it read from them itself."""

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from unpacking import unpack

from statestores.errors import MissingDriverError
from statestores.migration import KafkaKind, KafkaStateDirectory
from statestores.partitioning import murmur2_partitioner
from statestores.registry import load_backend

FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = ("4.0.0", "4.3.1")


def need_rocksdb() -> None:
    """Skip the test when the driver that reads the databases is not installed."""
    try:
        load_backend("rocksdb")
    except MissingDriverError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Unpack what each version of Kafka Streams left; tests link its files, which is quicker."""
    need_rocksdb()
    directory = tmp_path_factory.mktemp("kafka-streams")
    for version in VERSIONS:
        unpack(FIXTURES / f"kafka-streams-{version}.tar.xz", directory / version)
    before = _checksums(directory)
    yield directory

    assert _checksums(directory) == before, (
        "a test wrote into a file: make another one in its place"
    )


def _checksums(directory: Path) -> dict[Path, int]:
    return {each: crc32(each.read_bytes()) for each in directory.rglob("*") if each.is_file()}


def linked(unpacked: Path, version: str, directory: Path) -> Path:
    """Return the application's directory as that *version* of Kafka Streams left it.

    What a test adds, removes or renames is its own. A file that it changes it makes anew.
    """
    made = directory / "kafka" / "fixture"
    return shutil.copytree(unpacked / version / "fixture", made, copy_function=os.link)


@pytest.fixture(params=VERSIONS)
def application(request: pytest.FixtureRequest, unpacked: Path, tmp_path: Path) -> Path:
    """Give the application's directory of each version."""
    return linked(unpacked, str(request.param), tmp_path)


@pytest.fixture
def older(unpacked: Path, tmp_path: Path) -> Path:
    """Give the directory of the version that has its offsets in text files."""
    return linked(unpacked, VERSIONS[0], tmp_path)


@pytest.fixture(scope="session")
def expected() -> dict[str, list[dict[str, Any]]]:
    """Return what Kafka Streams read from each store."""
    rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in (FIXTURES / "expected.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        for name in ("key", "value"):
            row[name] = None if row[name] is None else bytes.fromhex(row[name])
        rows[row.pop("store")].append(row)
    return dict(rows)


def _rows_of(
    directory: Path, store: str, partition: int = 0, kind: KafkaKind | None = None
) -> list[dict[str, Any]]:
    with KafkaStateDirectory(directory) as state:
        return [
            row for batch in state.read(store, partition, kind=kind) for row in batch.to_pylist()
        ]


@pytest.fixture
def rows_of() -> Callable[..., list[dict[str, Any]]]:
    """Return the function that reads all rows of one partition of a store."""
    return _rows_of


@pytest.fixture
def write_database() -> Callable[..., Path]:
    """Return the function that writes a database with the given column families."""
    need_rocksdb()
    rocksdict = import_module("rocksdict")

    def write(path: Path, families: dict[str, dict[bytes, bytes]]) -> Path:
        path.mkdir(parents=True, exist_ok=True)
        options = rocksdict.Options(raw_mode=True)
        database = rocksdict.Rdict(str(path), options)
        for name, rows in families.items():
            family = (
                database
                if name == "default"
                else database.create_column_family(name, rocksdict.Options(raw_mode=True))
            )
            for key, value in rows.items():
                family.put(key, value)
            family.flush()
            del family
        database.close()
        return path

    return write


def _stamp(time_ms: int | None) -> bytes:
    """Return a timestamp as Kafka Streams keeps it."""
    return (-1 if time_ms is None else time_ms).to_bytes(8, "big", signed=True)


@pytest.fixture
def partitioned(tmp_path: Path, write_database: Callable[..., Path]) -> Path:
    """Make the directory of an application with three partitions of one upgraded store."""
    keys = [b"key-%03d" % number for number in range(60)]
    for partition in range(3):
        own = [key for key in keys if murmur2_partitioner.partition(key, 3) == partition]
        older = dict.fromkeys(own[::2], b"old")
        newer = {key: _stamp(7) + b"new" for key in own[1::2]}
        task = tmp_path / "app" / f"1_{partition}"
        write_database(
            task / "rocksdb" / "table", {"default": older, "keyValueWithTimestamp": newer}
        )
        (task / ".checkpoint").write_text(
            f"0\n1\napp-table-changelog {partition} {partition + 5}\n"
        )
    return tmp_path / "app"
