"""Whether each key lies in the partition to which the store's partitioner sends its reads (PAR-1).

A key elsewhere is no damage, and scans show it. A read of that key through the state root, or
through a facade over partitions, looks into another partition and misses it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.cli.values import as_text
from statestores.cli.verification.findings import Finding, Status
from statestores.errors import InvalidArgumentError
from statestores.partitioning import partitioner_by_name
from statestores.spi.specification import StoreSpecification


def check_placement(
    batches: Iterable[pa.RecordBatch],
    path: Path,
    specification: StoreSpecification[Any, Any],
    number: int,
    partitions: int,
) -> Iterator[Finding]:
    """Check the column ``key`` of *batches*, the content of partition *number* of *partitions*.

    Yields nothing where there is one partition only, or the partitioner is not known here.
    """
    if partitions == 1:
        return
    try:
        partitioner = partitioner_by_name(specification.partitioner)
    except InvalidArgumentError:
        return  # the check of the store says so
    rows = strangers = 0
    example: tuple[bytes, int] | None = None
    for batch in batches:
        keys = batch.column("key")
        chosen = partitioner.partition_array(keys, partitions)
        elsewhere = pc.not_equal(chosen, number)
        count = pc.sum(elsewhere).as_py() or 0
        rows += batch.num_rows
        strangers += count
        if count and example is None:
            place = pc.index(elsewhere, pa.scalar(True)).as_py()  # noqa: FBT003  # the value sought
            example = keys[place].as_py(), chosen[place].as_py()
    if example is None:
        words = f"{rows:,} rows, where {specification.partitioner!r} looks for their keys"
        yield Finding("partition", path, Status.OK, words)
        return
    key, home = example
    words = (
        f"{strangers:,} of {rows:,} rows have keys that {specification.partitioner!r} looks for in "
        f"another partition, first of them {as_text(key)!r}, in {home}: a read of one key through "
        "the state root misses them, and scans do not"
    )
    yield Finding("partition", path, Status.WARNING, words)
