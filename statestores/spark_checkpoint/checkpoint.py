"""The directory of a streaming query's checkpoint, with the state of one operator, to be written.

::

    commits/<batch>, offsets/<batch>        say which batches there are, and how state is stored
    metadata, state/0/_metadata/metadata    the query, and the operator (for "state-metadata")
    state/0/0/_metadata/schema              the columns of keys and values
    state/0/<partition>/<version>.delta     the changes of a batch; its version is one higher
    state/0/<partition>/<version>.snapshot  everything, after the changes of that version
"""

import json
import struct
import uuid
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from statestores.arrow.file_access import reporting, write_durably
from statestores.files.durable_directory import make_durable
from statestores.spark_checkpoint.column_types import struct_json
from statestores.spark_checkpoint.state_file import CODEC, StateFileWriter

PROVIDER: Final = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
"""The state store provider whose files these are."""

OPERATOR_NAME: Final = "stateStoreSave"
"""That of a streaming aggregation: the operator of which the reader asks nothing more."""

_CHUNK_BYTES: Final = 65_535  # the length of a text is two bytes
_SCHEMA_VERSION: Final = "v2"


class CheckpointDirectory:
    """A checkpoint that is being written; nothing about it is readable before `finish`."""

    def __init__(self, path: Path, keys: pa.Schema, values: pa.Schema, partitions: int) -> None:
        """Make the directories and the files that do not depend on the batches.

        Requires: *path* is an empty directory.

        Raises:
            InvalidArgumentError: A column has a type that is not written.
            StorageError: The disk failed.
        """
        self._path = path
        self._state = path / "state" / "0"
        self._partitions = partitions
        schema = _text(_SCHEMA_VERSION) + _texts(struct_json(keys)) + _texts(struct_json(values))
        with reporting("write", path):
            for number in range(partitions):
                (self._state / str(number)).mkdir(parents=True)
            _write(path / "metadata", _dump({"id": str(uuid.uuid4())}))
            operator = {
                "operatorInfo": {"operatorId": 0, "operatorName": OPERATOR_NAME},
                "stateStoreInfo": [
                    {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}
                ],
            }
            _write(self._state / "_metadata" / "metadata", b"v1\n" + _dump(operator))
            _write(self._state / "0" / "_metadata" / "schema", schema)

    def delta(self, partition: int, batch: int) -> AbstractContextManager[StateFileWriter]:
        """Give the writer of the changes of *batch*, which each partition needs, even if none."""
        return StateFileWriter.open(self._state / str(partition) / f"{batch + 1}.delta")

    def snapshot(self, partition: int, batch: int) -> AbstractContextManager[StateFileWriter]:
        """Give the writer of the whole state after *batch*."""
        return StateFileWriter.open(self._state / str(partition) / f"{batch + 1}.snapshot")

    def finish(self, batches: int, time_ms: int) -> None:
        """Write that there are this many *batches*, all of them of *time_ms*.

        Requires: each partition has a delta for each batch.

        Raises:
            StorageError: The disk failed.
        """
        conf = {
            "spark.sql.streaming.stateStore.providerClass": PROVIDER,
            "spark.sql.streaming.stateStore.compression.codec": CODEC,
            "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
            "spark.sql.shuffle.partitions": str(self._partitions),
        }
        offsets = {"batchWatermarkMs": 0, "batchTimestampMs": time_ms, "conf": conf}
        with reporting("write", self._path):
            for batch in range(batches):
                _write(self._path / "offsets" / str(batch), b"v1\n" + _dump(offsets) + b"\n{}")
                _write(self._path / "commits" / str(batch), b'v1\n{"nextBatchWatermarkMs":0}')
            for directory in (path for path in self._path.rglob("*") if path.is_dir()):
                make_durable(directory)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, data)


def _dump(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _text(text: str) -> bytes:
    """Return *text*, of ASCII, as Java's ``writeUTF`` does."""
    data = text.encode("ascii")
    return struct.pack(">H", len(data)) + data


def _texts(text: str) -> bytes:
    """Return a *text* of any length, in as many pieces as it needs."""
    pieces = [text[start : start + _CHUNK_BYTES] for start in range(0, len(text), _CHUNK_BYTES)]
    return struct.pack(">i", len(pieces)) + b"".join(map(_text, pieces))
