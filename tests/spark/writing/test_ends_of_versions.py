"""A history that is read, and written into another store: what has ended stays ended."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import statestores as ss
from statestores.errors import InvalidArgumentError
from statestores.spark.columns import from_spark
from statestores.spark.given_root import GivenRoot, store_at
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.source.publishing import publish_rows, stage_rows
from statestores.spark.source.reader import StateStoreReader
from statestores.spark.source.write_plan import plan_write

RATES = ss.Versioned("rates", history_retention_ms=1_000_000, key=ss.utf8, value=ss.float64)


def history(root: Path) -> pa.Table:
    """Return every version of the store, as Spark reads it."""
    given = SourceOptions.for_reading({"path": str(root), "history": "true"})
    entry = store_at(GivenRoot(root), None)
    source = StateStoreReader(GivenRoot(root), entry.specification, entry.partitions, given)
    batches = [batch for task in source.partitions() for batch in source.read(task)]
    return pa.Table.from_batches(batches, source.arrow_schema())


def write(root: Path, rows: pa.Table) -> None:
    """Write *rows* into the store, as Spark does, with two tasks."""
    given = SourceOptions.for_writing(
        {"path": str(root), "storeName": "rates", "historyRetention": "1000s", "numPartitions": "1"}
    )
    planned = plan_write(GivenRoot(root), given, from_arrow_schema(rows.schema))
    write_id, half = uuid4().hex, rows.num_rows // 2
    staged = [
        stage_rows(
            planned,
            write_id,
            str(number),
            [from_spark(each, planned.specification, raw=False) for each in part.to_batches()],
        )
        for number, part in enumerate((rows.slice(half), rows.slice(0, half)))
    ]
    publish_rows(planned, write_id, staged, overwrite=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store in which one key has a gap, one has ended, and one goes on."""
    state = ss.StateRoot.create(tmp_path / "state")
    state.add_store(RATES, partitions=1)
    with ss.open_logged_store(state, "rates", 0, backend="memory") as logged:
        for key, value, time_ms in (
            ("gap", 1.0, 1_000),
            ("gap", None, 2_000),
            ("gap", 1.2, 5_000),
            ("ended", 2.0, 1_000),
            ("ended", None, 3_000),
            ("on", 3.0, 1_000),
            ("on", 3.1, 2_000),
        ):
            logged.store.put(key, value, time_ms)
        logged.commit()
    return state.path


def test_ends_are_refused_and_not_left_out(root: Path, tmp_path: Path) -> None:
    """They were ignored, so a copy of a history had keys again that had been deleted.

    What the error says to do gives the history that was read. Ends that are null say nothing, as in
    an INSERT, whose columns are those of a load.
    """
    read = history(root)
    rows: list[dict[str, Any]] = read.to_pylist()
    with pytest.raises(InvalidArgumentError, match="Leave the column out, and where no version"):
        write(tmp_path / "copy", read)

    begins = {(row["key"], row["valid_from"]) for row in rows}
    ends = [
        {"key": row["key"], "value": None, "valid_from": row["valid_to"]}
        for row in rows
        if row["valid_to"] is not None and (row["key"], row["valid_to"]) not in begins
    ]
    plain = read.drop_columns(["valid_to"])
    write(tmp_path / "copy", pa.concat_tables([plain, pa.Table.from_pylist(ends, plain.schema)]))

    assert [row["key"] for row in ends] == ["ended", "gap"]
    assert history(tmp_path / "copy").to_pylist() == rows
    latest = [row for row in rows if row["valid_to"] is None]
    write(tmp_path / "latest", pa.Table.from_pylist(latest, read.schema))
    assert history(tmp_path / "latest").to_pylist() == latest
