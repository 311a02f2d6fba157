"""The changes of one partition as columns: what each did, where it stands, what it replaced."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.keys.key_selection import KeySelection
from statestores.changelog import Frame, FrameKind, change_schema
from statestores.errors import InvalidArgumentError, OffsetOutOfRangeError
from statestores.reading.change_details import (
    CHANGE_TYPE,
    COMMIT_COLUMNS,
    POSITION,
    BeforeImages,
    check_before_images,
    check_known,
    position_text,
    unknown_before,
    with_commit,
)
from statestores.reading.partition_columns import BEFORE, decoded, serdes_of, with_types
from statestores.reading.visible_log import VisibleLog
from statestores.spi.specification import StoreSpecification

OPERATIONS = ("put", "delete", "clear")
"""What a change can be. A clear has no key: it drops everything before it."""

_OF_COMMITS = frozenset(COMMIT_COLUMNS.names)

ContentAt: TypeAlias = Callable[[int, KeySelection], Iterator[pa.RecordBatch]]
"""Gives the rows of some keys after the change with an offset, as bytes."""


def feed_schema(
    specification: StoreSpecification[Any, Any],
    *,
    typed: bool = True,
    before: bool = False,
    position: bool = False,
    commits: bool = False,
) -> pa.Schema:
    """Return the columns of a change feed: offset, partition, operation, and the change itself.

    With *before*, *position* and *commits* also what these say.

    Raises:
        InvalidArgumentError: The values before the changes of such a store are not known.
    """
    changes = change_schema(specification.kind)
    if before:
        check_before_images(specification)
        changes = changes.append(changes.field("value").with_name(BEFORE))
    if typed:
        changes = with_types(changes, serdes_of(specification))
    if position:
        changes = changes.append(pa.field(POSITION, pa.string()))
    for field in COMMIT_COLUMNS if commits else ():
        changes = changes.append(field)
    return _placed(changes)


class ChangeFeed:
    """The changes of the selected keys of one partition."""

    def __init__(
        self,
        log: VisibleLog,
        specification: StoreSpecification[Any, Any],
        keys: KeySelection,
        content_at: ContentAt,
    ) -> None:
        """Read *log*, and where values before changes are asked for, the content with it."""
        self._log = log
        self._specification = specification
        self._keys = keys
        self._content_at = content_at
        self._number = log.partition

    def read(
        self,
        from_offset: int | None,
        to_offset: int | None,
        schema: pa.Schema,
        *,
        typed: bool,
        before: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Return the columns of *schema* of the changes from one offset up to another.

        The offsets are those of this call, also where they are the first one and the end. Whether
        the values *before* are known, what a change is called depends on.

        Raises:
            OffsetOutOfRangeError, InvalidArgumentError: See `PartitionReader.changes`.
        """
        first = self._log.first_offset()
        start = first if from_offset is None else from_offset
        end = self._log.end().offset
        stop = end if to_offset is None else to_offset
        is_gone = from_offset is None and stop < first
        if not first <= start <= end or stop > end or is_gone:
            raise OffsetOutOfRangeError(
                f"partition {self._number} of {self._specification.name!r} has the changes from "
                f"offset {first} up to, and without, {end}; asked for {start} up to {stop}"
                f"{self._log.history if start < first or is_gone else ''}"
            )
        if start > stop:
            raise InvalidArgumentError(
                f"from_offset must not exceed to_offset, got {start!r} and {stop!r}"
            )
        needs_images = before and bool({BEFORE, CHANGE_TYPE} & set(schema.names))
        images = self._before(start, stop) if needs_images else None
        return self._read(start, stop, schema, images, typed=typed)

    def _read(
        self, start: int, stop: int, schema: pa.Schema, images: BeforeImages | None, *, typed: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns of *schema* of the changes; *images* follow them."""
        serdes = serdes_of(self._specification) if typed else {}
        for frame in self._log.frames(start, stop):
            changes = described(frame, self._specification.kind, self._number)
            if images is not None:
                self._refuse_compacted(frame, start)
                if frame.kind is FrameKind.CLEAR:
                    images.clear()
            selected = changes if self._keys.everything else self._keys.filter(changes)
            if not selected.num_rows:
                continue
            if images is not None:
                selected = selected.append_column(BEFORE, images.replaced(selected))
            if POSITION in schema.names:
                text = position_text(frame.position)
                selected = selected.append_column(
                    POSITION, pa.repeat(pa.scalar(text, pa.string()), selected.num_rows)
                )
            if _OF_COMMITS & set(schema.names):
                selected = with_commit(selected, frame)
            yield decoded(selected, schema, serdes)

    @property
    def _where(self) -> str:
        """The partition, as messages show it."""
        return f"partition {self._number} of {self._specification.name!r}"

    def _refuse_compacted(self, frame: Frame, start: int) -> None:
        """Accept a *frame* that has all of its changes: the images follow each of them.

        Raises:
            OffsetOutOfRangeError: A compaction has dropped some since the feed began at *start*.
        """
        has = 1 if frame.kind is FrameKind.CLEAR else frame.batch.num_rows
        if has != frame.last_offset + 1 - frame.base_offset:
            check_known(self._log.beginning(), start, self._where)
            raise unknown_before(self._where, start)

    def _before(self, start: int, stop: int) -> BeforeImages:
        """Return the values of the keys that change from *start* on, as they are before that."""
        where = self._where
        check_known(self._log.beginning(), start, where)
        changing: set[bytes] = set()
        for frame in self._log.frames(start, stop):
            changing.update(self._keys.filter(frame.batch).column("key").to_pylist())
        try:
            content = self._content_at(start - 1, KeySelection.of(changing))
        except OffsetOutOfRangeError as error:
            raise unknown_before(where, start) from error
        return BeforeImages(content)


def described(frame: Frame, kind: str, number: int | None) -> pa.RecordBatch:
    """Return the changes of *frame*, of a store of *kind*, with offset, partition and operation.

    As bytes. *number* is the partition's, if anybody knows it.
    """
    if frame.kind is FrameKind.CLEAR:
        row = {"offset": frame.base_offset, "partition": number, "operation": "clear"}
        return pa.RecordBatch.from_pylist([row], schema=_placed(change_schema(kind)))
    return placed_changes(frame.batch, frame.offset_column(), number)


def placed_changes(
    changes: pa.RecordBatch, offsets: pa.Array, number: int | None
) -> pa.RecordBatch:
    """Return *changes*, columns of a changelog, with where each is and what it does."""
    put, delete, _ = OPERATIONS
    columns = [
        offsets,
        pa.repeat(pa.scalar(number, pa.int32()), changes.num_rows),
        pc.if_else(pc.is_valid(changes.column("value")), put, delete),
        *changes.columns,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_placed(changes.schema))


def _placed(changes: pa.Schema) -> pa.Schema:
    """Return the columns of *changes* behind those that say where and what each change is."""
    fields = [
        pa.field("offset", pa.int64()),
        pa.field("partition", pa.int32()),
        pa.field("operation", pa.string()),
        *(field.with_nullable(True) for field in changes),  # noqa: FBT003  # Arrow's signature
    ]
    return pa.schema(fields)
