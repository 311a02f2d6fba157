"""What a change feed can say beside a change: the value that it replaced, and its input.

The changes of one partition pass in the order of the log; the content before the first of them is
what the first change of each key is compared with. Memory is that of the keys that change, and of
their values.
"""

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from statestores.changelog import Frame
from statestores.errors import InvalidArgumentError, OffsetOutOfRangeError
from statestores.reading.partition_columns import BEFORE
from statestores.reading.visible_log import LogBeginning
from statestores.spi.offsets import Position
from statestores.spi.specification import StoreSpecification, TimestampedKeyValue

POSITION = "position"
"""The column of the input that the commit of a change reflects."""

COMMIT_TIMESTAMP = "_commit_timestamp"
COMMIT_VERSION = "_commit_version"
CHANGE_TYPE = "_change_type"

COMMIT_COLUMNS = pa.schema(
    [
        pa.field(CHANGE_TYPE, pa.string()),
        pa.field(COMMIT_VERSION, pa.int64()),
        pa.field(COMMIT_TIMESTAMP, pa.int64()),
    ]
)
"""What other tables say of a change, under their names: what it did, the last offset of its commit,
and when that was appended, in milliseconds."""


def with_commit(changes: pa.RecordBatch, frame: Frame) -> pa.RecordBatch:
    """Return *changes* of *frame* with the `COMMIT_COLUMNS`.

    A put is an ``insert`` or an ``update_postimage`` where the values before are among *changes*,
    as ``before``; else nobody knows, and it is an ``upsert``.
    """
    count, put = changes.num_rows, pc.equal(changes.column("operation"), "put")
    if BEFORE in changes.schema.names:
        stored = pc.if_else(changes.column(BEFORE).is_null(), "insert", "update_postimage")
    else:
        stored = pa.repeat(pa.scalar("upsert"), count)
    columns = [
        pc.if_else(put, stored, changes.column("operation")),
        pa.repeat(pa.scalar(frame.last_offset, pa.int64()), count),
        pa.repeat(pa.scalar(frame.appended_at_ms, pa.int64()), count),
    ]
    for field, column in zip(COMMIT_COLUMNS, columns, strict=True):
        changes = changes.append_column(field, column.cast(field.type))
    return changes


class BeforeImages:
    """The values of the keys that change, as the changes so far have left them."""

    def __init__(self, content: Iterable[pa.RecordBatch]) -> None:
        """Begin with *content*: the rows of these keys before the first change."""
        self._values: dict[bytes, bytes | None] = {}
        for rows in content:
            keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
            self._values.update(zip(keys, values, strict=True))

    def clear(self) -> None:
        """Forget everything: the log says that it was deleted."""
        self._values.clear()

    def replaced(self, changes: pa.RecordBatch) -> pa.Array:
        """Return the value that each of *changes* replaced, and take the changes in."""
        values = self._values
        before = []
        for key, value in zip(
            changes.column("key").to_pylist(), changes.column("value").to_pylist(), strict=True
        ):
            before.append(values.get(key))
            values[key] = value
        return pa.array(before, pa.binary())


def check_before_images(specification: StoreSpecification[Any, Any]) -> None:
    """Accept a store whose changes each replace one value that the log alone gives.

    Raises:
        InvalidArgumentError: It is of another kind, or its values expire.
    """
    if specification.kind.order:
        reason = f"it is a {specification.kind} store, whose changes are of a key and a time"
    elif isinstance(specification, TimestampedKeyValue) and specification.ttl_ms is not None:
        reason = "whether a value had expired when it was replaced is not in its changelog"
    else:
        return
    raise InvalidArgumentError(
        f"the values before the changes of {specification.name!r} are not known: {reason}; they "
        "are for key-value stores without a ttl"
    )


def check_known(beginning: LogBeginning, start: int, where: str) -> None:
    """Accept a first change, at *start*, before which no change of the log is missing.

    Raises:
        OffsetOutOfRangeError: One is: the value before it would be wrong.
    """
    if start < beginning.complete_from:
        raise OffsetOutOfRangeError(
            f"the values before the changes of {where} are known from offset "
            f"{beginning.complete_from} on, and not from {start}: a compaction has dropped changes "
            f"in between; begin at {beginning.complete_from}, or leave the values before out"
        )


def unknown_before(where: str, start: int) -> OffsetOutOfRangeError:
    """Return the error for a first change before which the content is gone."""
    return OffsetOutOfRangeError(
        f"the values before the changes of {where} from offset {start} on are not known: neither "
        "the changelog nor a snapshot has the content before it; begin after the offset of a "
        "snapshot, or leave the values before out"
    )


def position_text(position: Position) -> str | None:
    """Return *position* as JSON, partitions by topic; ``None`` where it says nothing."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(position.items()):
        topics.setdefault(topic, {})[str(number)] = offset
    return json.dumps(topics) if topics else None
