"""A worker for Spark's daemon that uses drivers whose threads serve a whole process.

`pyspark.daemon` runs the module that it is told by Java, if the name begins so.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from pyspark.sql.datasource import DataSource

import statestores as ss
from statestores.errors import StoreClosedError
from statestores.spi import Durability
from statestores.storage import open_storage

_VALUE = b"v" * 1024
_ROWS = 400
_WRITE_BUFFER_BYTES = 64 * 1024
"""Several times the rows fill it, so that a thread of the driver writes them out."""


def main(infile: BinaryIO, outfile: BinaryIO) -> None:
    """Do a task: use each driver, and tell what came of it."""
    if not infile.read(1):
        sys.exit(-1)  # as `pyspark.worker` does when Java has closed the socket
    told = {
        "process": os.getpid(),
        "is_prepared": "statestores.spark.source.source" in sys.modules,
        "drivers": use_each_driver(),
    }
    outfile.write(json.dumps(told).encode() + b"\n")
    outfile.flush()


def use_each_driver() -> dict[str, str]:
    """Use what has threads; return "done" for each, or what was refused."""
    uses = {"RocksDB": _use_rocksdb, "LevelDB": _use_leveldb, "obstore": _use_obstore}
    told: dict[str, str] = {}
    for name, use in uses.items():
        try:
            use()
            told[name] = "done"
        except StoreClosedError as error:
            told[name] = str(error)
    return told


def told_by_tasks(numbers: Iterable[int]) -> Iterator[tuple[int, dict[str, str]]]:
    """Do the same in a task of Spark."""
    for _ in numbers:
        yield os.getpid(), use_each_driver()


class PlannedByUse(DataSource):
    """A source that tells, by the name of its column, what came of it where it is planned."""

    @classmethod
    def name(cls) -> str:
        """Return its name for Spark."""
        return "planned_by_use"

    def schema(self) -> str:
        """Return a column that is named for what there is."""
        return f"`{json.dumps(use_each_driver())}` int"


def _use_rocksdb() -> None:
    _fill("rocksdb")


def _use_leveldb() -> None:
    _fill("leveldb")


def _fill(backend: str) -> None:
    """Write more than a write buffer, and close: both wait for threads of the driver."""
    with (
        TemporaryDirectory() as directory,
        ss.open_store(
            Path(directory) / "store",
            ss.KeyValue("filled"),
            backend=backend,
            options={"write_buffer_bytes": _WRITE_BUFFER_BYTES},
            durability=Durability.PROCESS_CRASH,
        ) as store,
    ):
        for number in range(_ROWS):
            store.put(b"%d" % number, _VALUE)
            if number % 50 == 0:
                store.commit({ss.TopicPartition("source", 0): number})


def _use_obstore() -> None:
    storage = open_storage(f"memory://worker-{os.getpid()}/root")
    storage.create("a", b"1")
    storage.read("a")
