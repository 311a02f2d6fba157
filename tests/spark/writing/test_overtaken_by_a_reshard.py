"""Writes of a store that is resharded before they are committed: what they are told."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import statestores as ss
from statestores.errors import InvalidOptionError, StoreReshardedError
from statestores.resharding import reshard
from statestores.spark.columns import from_spark
from statestores.spark.given_root import GivenRoot
from statestores.spark.options.read_and_write import SourceOptions
from statestores.spark.source.publishing import discard_rows, publish_rows, stage_rows
from statestores.spark.source.source import StateStoresDataSource
from statestores.spark.source.write_by_snapshot import replace_by_snapshots, stage_sorted
from statestores.spark.source.write_plan import WritePlan, plan_write
from statestores.staging.write_intent import StreamBatch

ROWS = pa.record_batch({"key": ["a", "b", "c"], "value": [1, 2, 3]})


def plan(root: Path, **options: str) -> WritePlan:
    """Plan a write of `ROWS`, as Spark's driver does."""
    given = SourceOptions.for_writing({"path": str(root), "storeName": "counts", **options})
    return plan_write(GivenRoot(root), given, from_arrow_schema(ROWS.schema))


def write(planned: WritePlan, write_id: str, *, batch: StreamBatch | None = None) -> None:
    """Do as Spark does with what was *planned*, with one task."""
    rows = from_spark(ROWS, planned.specification, raw=False)
    staged = [stage_rows(planned, write_id, "0", [rows])]
    try:
        publish_rows(planned, write_id, staged, overwrite=False, batch=batch)
    except StoreReshardedError:
        discard_rows(planned, write_id)
        raise


def test_a_write_that_a_reshard_has_overtaken_says_so(tmp_path: Path) -> None:
    """It was told that a store "has 3 partitions, expected 2", and how to reshard it.

    So was a micro-batch of a query; a later one is planned for the partitions that there are then.
    """
    root = tmp_path / "state"
    write(plan(root, numPartitions="2"), "w1")
    overtaken = plan(root)
    reshard(root, "counts", 3)
    for number, batch in enumerate((None, StreamBatch(stream="q", number=0))):
        with pytest.raises(
            StoreReshardedError, match=r"has been resharded to 3 since\. Nothing of .* repeat it"
        ):
            write(overtaken, f"lost-{number}", batch=batch)

    assert [path for path in root.glob("counts/**/.writes/*") if path.is_dir()] == []
    write(plan(root), "w2", batch=StreamBatch(stream="q", number=0))
    assert ss.StateRoot.open(root).store("counts").partitions == 3


def test_a_number_of_partitions_may_be_that_of_before(tmp_path: Path) -> None:
    """The option is refused, and says how it can have come to be wrong."""
    root = tmp_path / "state"
    write(plan(root, numPartitions="2"), "w1")
    reshard(root, "counts", 3)

    with pytest.raises(
        InvalidOptionError,
        match=r"says 2, and the store 'counts' has 3, .* \(a reshard does, and may have\); leave",
    ):
        plan(root, numPartitions="2")
    assert plan(root, numPartitions="3").partitions == 3


@pytest.mark.parametrize("snapshot", ["never", "always"])
@pytest.mark.parametrize("how", ["resharded twice", "replaced"])
def test_a_write_whose_partitions_were_replaced_says_so(
    tmp_path: Path, how: str, snapshot: str
) -> None:
    """It was told that a staged file "is not there", as if the store were not there.

    Whoever takes conflicts as they come (``onConflict`` is ``merge``) met that whenever another
    had replaced the partitions by as many: by an overwrite with snapshots, or by two reshards.
    """
    root = tmp_path / "state"
    write(plan(root, numPartitions="2"), "w1")
    overtaken = replace(plan(root), by_snapshot=snapshot == "always")
    stage = stage_sorted if overtaken.by_snapshot else stage_rows
    staged = stage(overtaken, "w2", "0", [from_spark(ROWS, overtaken.specification, raw=False)])
    if how == "replaced":
        by_snapshot(plan(root), "w3")
    else:
        for partitions in (3, 2):
            reshard(root, "counts", partitions)
    publish = replace_by_snapshots if overtaken.by_snapshot else publish_rows
    with pytest.raises(
        StoreReshardedError, match=r"'counts' were replaced since .* Nothing of .* repeat it"
    ):
        publish(overtaken, "w2", [staged], overwrite=True, expected_ends={})

    discard_rows(overtaken, "w2")
    assert [path for path in root.glob("counts/**/.writes/*") if path.is_dir()] == []
    write(plan(root), "w4")


def by_snapshot(planned: WritePlan, write_id: str) -> None:
    """Replace the content of the store as *planned*, by snapshots."""
    rows = from_spark(ROWS, planned.specification, raw=False)
    staged = [stage_sorted(planned, write_id, "0", [rows])]
    replace_by_snapshots(planned, write_id, staged, overwrite=True, expected_ends={})


@pytest.mark.spec("RSH-7")
@pytest.mark.parametrize("split", ["", "2"])
def test_a_read_that_was_planned_before_is_of_the_partitions_of_then(
    tmp_path: Path, split: str
) -> None:
    """Its tasks looked for the partitions anew.

    So they asked the new ones for an offset of the old ones, and a user was told that an offset
    "has been deleted", or that the content "is gone", or that the store was resharded, by chance.
    """
    root = tmp_path / "state"
    write(plan(root, numPartitions="2"), "w1")
    options = {"path": str(root)} | ({"splits": split} if split else {})
    source = StateStoresDataSource(options)
    reader = source.reader(source.schema())
    planned = reader.partitions()
    replaced = plan(root)
    rows = from_spark(ROWS, replaced.specification, raw=False)
    replace_by_snapshots(
        replaced,
        "s1",
        [stage_sorted(replaced, "s1", "0", [rows])],
        overwrite=True,
        expected_ends={},
    )

    for each in planned:
        with pytest.raises(StoreReshardedError, match="open the state root again"):
            list(reader.read(each))
    again = source.reader(source.schema())
    assert sum(len(batch) for each in again.partitions() for batch in again.read(each)) == 3
