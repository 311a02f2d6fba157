"""The logical rows of each kind of store as Arrow columns, and `Changes` to and from them (SNP-9).

Rows are *content*: what a store holds, in the order of its keys' bytes, and within a key in the
kind's own: versions and windows by their start, sessions by their end. A version's end is not
stored in a store; it is the next version's start.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from statestores.changelog.rows import (
    change_schema,
    changes_from_batch,
    number_columns,
    numbers_of,
)
from statestores.errors import InvalidArgumentError, InvalidTypeError, UnsupportedFormatError
from statestores.spi import kinds
from statestores.spi.kinds import END_OF_ROW, KINDS, Kind
from statestores.spi.records import Changes


def _rows(kind: Kind) -> pa.Schema:
    """Return the columns of the rows of *kind*, in which only a history has deletions."""
    rows = pa.schema(
        [
            pa.field("key", pa.binary(), nullable=False),
            pa.field("value", pa.binary(), nullable=kind.has_history),
            *(
                pa.field(each.row_name, pa.int64(), nullable=not each.required)
                for each in kind.numbers
            ),
        ]
    )
    return rows.append(pa.field(END_OF_ROW, pa.int64())) if kind.has_history else rows


_ROWS = {name: _rows(kind) for name, kind in KINDS.items()}

KEY_VALUE_ROWS = _ROWS[kinds.KEY_VALUE]
"""A key and its value. Content knows no deletion: what is deleted is not there."""

VERSIONED_ROWS = _ROWS[kinds.VERSIONED]
"""A version of a key. A null ``value`` is a deletion; a null ``valid_to`` the latest version."""

TIMESTAMPED_ROWS = _ROWS[kinds.TIMESTAMPED_KEY_VALUE]
"""A key, its value, and the timestamp with which it was put; null for a value that has none."""

WINDOW_ROWS = _ROWS[kinds.WINDOW]
"""A key's value in a window. ``sequence`` tells retained duplicates apart; else it is null."""

SESSION_ROWS = _ROWS[kinds.SESSION]
"""A key's value in the session from ``session_start`` to ``session_end``, both inclusive."""

_ORDERS_OF_COLUMNS = {
    tuple(_ROWS[name].names): tuple(each.row_name for each in kind.order)
    for name, kind in KINDS.items()
}

_NO_TIME = pa.nulls(1, pa.int64())[0]  # pa.scalar would import pandas, where that is installed
_NO_NUMBER = -1  # below every number


def row_schema(kind: str) -> pa.Schema:
    """Return the schema of the rows of the stores of *kind*.

    Raises:
        UnsupportedFormatError: This release knows no rows of that kind.
    """
    try:
        return _ROWS[kind]
    except KeyError:
        raise UnsupportedFormatError(
            f"no row schema is known for stores of the kind {kind!r}; "
            f"known: {', '.join(sorted(_ROWS))}; upgrade statestores"
        ) from None


def put_order(kind: str) -> str | None:
    """Return the column by which rows are put so that none of them makes another one too late.

    ``None`` for the kinds that take rows in any order.
    """
    column = KINDS[kind].put_by
    return None if column is None else column.row_name


def rows_from_changes(kind: str, changes: Changes) -> pa.RecordBatch:
    """Return *changes*, the content of a store in its order, as rows.

    Of versioned rows the last one counts as the latest of its key; `end_validity` corrects that
    when more rows follow.

    Raises:
        UnsupportedFormatError: The kind has no row schema.
        InvalidArgumentError: The columns do not fit the kind.
    """
    schema = row_schema(kind)
    keys = _column(changes.keys, pa.binary())
    values = _column(changes.values, pa.binary())
    if values.null_count and not schema.field("value").nullable:
        raise InvalidArgumentError(
            f"the changes delete a key, and the content of a {kind} store has no deletions"
        )
    try:
        numbers = numbers_of(changes, number_columns(change_schema(kind)))
    except InvalidTypeError as error:
        raise InvalidArgumentError(f"a column of changes is no content: {error}") from error
    if schema is VERSIONED_ROWS:
        numbers.append(_ends(keys, numbers[0]))
    return pa.RecordBatch.from_arrays([keys, values, *numbers], schema=schema)


def changes_from_rows(rows: pa.RecordBatch) -> Changes:
    """Return *rows* of any kind as changes that rebuild them."""
    if rows.schema.names == VERSIONED_ROWS.names:
        rows = rows.select(["key", "value", "valid_from"])
        return Changes(*(column.to_pylist() for column in rows.columns))
    return changes_from_batch(rows)


def end_validity(rows: pa.RecordBatch, following: pa.RecordBatch | None) -> pa.RecordBatch:
    """Return *rows* with the end of each version, the first row of *following* coming next.

    Rows of other kinds are returned as they are.
    """
    if rows.schema.names != VERSIONED_ROWS.names or rows.num_rows == 0:
        return rows
    keys, starts = rows.column("key"), rows.column("valid_from")
    ends = _ends(keys, starts)
    if following is not None and following.num_rows and following.column("key")[0] == keys[-1]:
        ends = pa.concat_arrays([ends.slice(0, len(ends) - 1), following.column("valid_from")[:1]])
    return pa.RecordBatch.from_arrays(
        [keys, rows.column("value"), starts, ends], schema=rows.schema
    )


def valid_at(rows: pa.RecordBatch, as_of_ms: int | None, horizon_ms: int) -> pa.RecordBatch:
    """Return the versioned *rows* that are valid as of a time, deletions left out (VRS-9, VRS-11).

    Without a time, the latest. Below *horizon_ms*, stream time minus the history retention, only
    latest versions count.
    """
    latest = pc.is_null(rows.column("valid_to"))
    valid = pc.is_valid(rows.column("value"))
    if as_of_ms is None:
        return rows.filter(pc.and_(valid, latest))
    valid = pc.and_(valid, pc.less_equal(rows.column("valid_from"), as_of_ms))
    if as_of_ms < horizon_ms:
        return rows.filter(pc.and_(valid, latest))
    running = pc.fill_null(pc.greater(rows.column("valid_to"), as_of_ms), True)  # noqa: FBT003  # the value
    return rows.filter(pc.and_(valid, running))


def first_disorder(rows: pa.RecordBatch, previous: pa.RecordBatch | None) -> int | None:
    """Return the first row that is not above its predecessor, or ``None`` when all are in order.

    The predecessor of the first row is the last row of *previous*.
    """
    if previous is not None and previous.num_rows:
        joined = pa.Table.from_batches([previous.slice(previous.num_rows - 1), rows])
        before = 1
    else:
        joined, before = pa.Table.from_batches([rows]), 0
    ordered = _pairwise(joined.column("key"), pc.less)
    same = _pairwise(joined.column("key"), pc.equal)
    for name in _ORDERS_OF_COLUMNS.get(tuple(rows.schema.names), ()):
        numbers = pc.fill_null(joined.column(name), _NO_NUMBER)
        ordered = pc.or_(ordered, pc.and_(same, _pairwise(numbers, pc.less)))
        same = pc.and_(same, _pairwise(numbers, pc.equal))
    found = pc.index(ordered, pa.scalar(False)).as_py()  # noqa: FBT003  # the value sought
    return None if found < 0 else found + 1 - before


def _pairwise(column: pa.ChunkedArray, compare: Callable[[object, object], pa.Array]) -> pa.Array:
    """Return *compare* of each value with its successor."""
    whole = column.combine_chunks()
    return compare(whole.slice(0, max(len(whole) - 1, 0)), whole.slice(1))


def _ends(keys: pa.Array, starts: pa.Array) -> pa.Array:
    """Return for each row the start of the next one where that has the same key."""
    if len(keys) == 0:
        return pa.array([], pa.int64())
    same = pc.equal(keys.slice(0, len(keys) - 1), keys.slice(1))
    return pa.concat_arrays([pc.if_else(same, starts.slice(1), _NO_TIME), pa.nulls(1, pa.int64())])


def _column(values: object, kind: pa.DataType) -> pa.Array:
    """Return *values* as one array.

    Raises:
        InvalidArgumentError: They are not of the kind, or more than one array can hold.
    """
    try:
        column = pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InvalidArgumentError(f"a column of changes is not {kind}: {error}") from error
    if isinstance(column, pa.ChunkedArray):
        raise InvalidArgumentError(
            "the changes hold more than 2 GiB in one column; pass them in smaller chunks"
        )
    return column
