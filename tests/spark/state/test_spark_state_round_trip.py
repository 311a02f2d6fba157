"""A store that was exported as Spark's state becomes the store that it was."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import statestores as ss
from statestores.errors import (
    InvalidArgumentError,
    UnsupportedFormatError,
)
from statestores.logged_store import open_logged_store
from statestores.migration.spark.export import EXPORT_FILE, export_spark_checkpoint
from statestores.reading.partition_reader import PartitionReader
from statestores.spark.state.importing import StateSelection, import_spark_state

_ROUND_TRIPS: list[Any] = [
    ss.KeyValue("values", key=ss.utf8, value=ss.json),
    ss.TimestampedKeyValue("stamped", key=ss.int64, ttl_ms=ss.DAY),
    ss.Versioned("versions", key=ss.utf8, value=ss.float64, history_retention_ms=4_000),
    ss.Window(
        "duplicates", key=ss.utf8, window_size_ms=10, retention_ms=4_000, retain_duplicates=True
    ),
    ss.Session("sessions", value=ss.int64, retention_ms=4_000),
]


def _put(store: Any, kind: Any, number: int, randomness: random.Random) -> None:
    """Put a row of the kind; some of them delete."""
    key: Any = number % 9 if kind.name == "stamped" else f"ключ {number % 9}"
    time_ms = number * 100
    match kind.name:
        case "values":
            store.put(key, {"ä": number} if number % 4 else None)
        case "stamped":
            store.put(key, b"\x00" * (number % 3), timestamp_ms=time_ms)
        case "versions":
            store.put(key, number / 3 if number % 4 else None, timestamp_ms=time_ms)
        case "duplicates":
            store.put(key, randomness.randbytes(3), window_start_ms=time_ms // 700 * 700)
        case _:
            store.put(key.encode(), time_ms, time_ms + 50, number)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        pytest.param(kind, raw, id=f"{'raw' if raw else 'typed'}-{kind.name}")
        for raw in (False, True)
        for kind in _ROUND_TRIPS
        # The bytes of one kind with times in the key, and of one with a sequence, do.
        if not raw or kind.name in {"versions", "duplicates"}
    ],
)
def test_what_was_exported_becomes_the_store_that_it_was(
    spark: SparkSession, tmp_path: Path, kind: Any, raw: bool
) -> None:
    """Of any kind: the specification, every row and every deletion that is kept."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(kind, partitions=2)
    randomness = random.Random(kind.name)
    with open_logged_store(state, kind.name, 1, backend="memory") as logged:
        for number in range(90):
            _put(logged.store, kind, number, randomness)
        logged.commit()
    export_spark_checkpoint(state, kind.name, tmp_path / "checkpoint", raw=raw)
    done = import_spark_state(spark, tmp_path / "checkpoint", tmp_path / "copy", partitions=1)
    copy = ss.StateRoot.open(tmp_path / "copy")
    rows = [
        # A store numbers its duplicates anew; their order stays.
        [
            {name: cell for name, cell in row.items() if name != "sequence"}
            for batch in reader.replay().rows()
            for row in batch.to_pylist()
        ]
        for reader in (
            PartitionReader(state.partition(kind.name, 1), kind),
            PartitionReader(copy.partition(kind.name, 0), kind),
        )
    ]

    assert copy.store(kind.name).specification == done.specification == kind
    assert rows[0] == rows[1]
    assert len(rows[0]) == done.rows > 5


def test_an_export_says_itself_what_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """Options that say something else are refused, and so is a later release's export."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(ss.KeyValue("empty"), partitions=1)
    checkpoint = tmp_path / "checkpoint"
    export_spark_checkpoint(state, "empty", checkpoint)
    with pytest.raises(InvalidArgumentError, match="leave --key, --value and their serdes out"):
        import_spark_state(spark, checkpoint, tmp_path / "copy", StateSelection(key="key.key"))
    content = json.loads((checkpoint / EXPORT_FILE).read_text())
    (checkpoint / EXPORT_FILE).write_text(json.dumps(content | {"format": 2}))

    with pytest.raises(UnsupportedFormatError, match="format 2, and this release knows 1"):
        import_spark_state(spark, checkpoint, tmp_path / "copy")
