"""The versions of a store in memory, as columns, answering for many keys and times at once.

A key is a number, its place in a dictionary, and a version is a number as well: the key's number
and its start together. These numbers ascend, so a whole column of questions is one search.

Invariant: the rows are sorted by `_ranks`, and no two have the same one.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from statestores.arrow.typed_columns import time_column
from statestores.errors import InvalidArgumentError, SerializationError
from statestores.serdes.arrow_columns import is_binary, is_text, map_chunks
from statestores.serdes.raw_serde import serde_or_raw
from statestores.spi.specification import StoreSpecification

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

HistoryRows: TypeAlias = pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]
"""Versions as `VERSIONED_ROWS`, keys and values in bytes or in the serdes' types."""

_NEVER_MS = (1 << 63) - 1
"""Stands for the end of a version that is still valid."""

_TIME = pa.int64()
_LARGE = {pa.binary(): pa.large_binary(), pa.string(): pa.large_string()}
_NARROW = {large: narrow for narrow, large in _LARGE.items()}
_OFFSETS_OF_32_BITS = 1 << 31


class Found(NamedTuple):
    """What was valid, a row for each question; null in all columns where nothing was."""

    values: pa.Array
    """The values."""

    valid_from: pa.Array
    """When the versions start, int64."""

    valid_to: pa.Array
    """When they end, int64; null also where a version is the latest of its key."""


class AsOfIndex:
    """Versions in memory. Made by `from_rows`; any number of threads may ask it.

    >>> rows = pa.table(
    ...     {
    ...         "key": ["EUR", "EUR"],
    ...         "value": [1.08, 1.10],
    ...         "valid_from": [100, 200],
    ...         "valid_to": [200, None],
    ...     }
    ... )
    >>> index = AsOfIndex.from_rows(rows)
    >>> found = index.find(pa.array(["EUR", "EUR", "USD"]), pa.array([150, 99, 150]))
    >>> found.values.to_pylist()
    [1.08, None, None]
    """

    __slots__ = (
        "_decode",
        "_encode",
        "_ends",
        "_horizon_ms",
        "_is_latest",
        "_key_type",
        "_keys",
        "_ranks",
        "_starts",
        "_times",
        "_values",
    )

    def __init__(
        self,
        keys: pa.Array,
        values: pa.Array,
        valid_from: Numbers,
        valid_to: pa.Array | None,
        horizon_ms: int | None,
        specification: StoreSpecification[Any, Any] | None,
    ) -> None:
        """Index rows of equal number; see `from_rows`."""
        self._key_type = _narrow(keys.type)
        self._encode = self._decode = None
        if specification is not None:
            self._encode = serde_or_raw(specification.key).encode_array
            self._decode = serde_or_raw(specification.value).decode_array
        try:
            encoded = keys.dictionary_encode()
        except pa.ArrowNotImplementedError as error:
            raise InvalidArgumentError(
                f"keys of the type {keys.type} cannot be indexed; give keys and values as "
                "bytes, and the store's specification"
            ) from error
        self._keys = encoded.dictionary
        codes: Numbers = encoded.indices.to_numpy().astype(np.int64)
        self._times = np.unique(valid_from)
        self._ranks = self._rank(codes, np.searchsorted(self._times, valid_from))
        if len(self._ranks) and not (self._ranks[1:] > self._ranks[:-1]).all():
            order = np.argsort(self._ranks, kind="stable")
            self._ranks, codes, valid_from = self._ranks[order], codes[order], valid_from[order]
            values = values.take(pa.array(order))
            valid_to = None if valid_to is None else valid_to.take(pa.array(order))
            if not (self._ranks[1:] > self._ranks[:-1]).all():
                raise InvalidArgumentError(
                    "the history has two versions of one key with the same start; take the rows "
                    "from one store, and no change feed"
                )
        self._values = values
        self._starts = valid_from
        if valid_to is None:
            is_last: Flags = np.append(codes[1:] != codes[:-1], values=True)[: len(codes)]
            self._is_latest = is_last
            self._ends = np.where(
                is_last, _NEVER_MS, np.append(valid_from[1:], _NEVER_MS)[: len(codes)]
            )
        else:
            self._is_latest = valid_to.is_null().to_numpy(zero_copy_only=False)
            self._ends = valid_to.fill_null(_NEVER_MS).to_numpy()
        self._horizon_ms = horizon_ms

    @classmethod
    def from_rows(
        cls,
        rows: HistoryRows,
        *,
        specification: StoreSpecification[Any, Any] | None = None,
        horizon_ms: int | None = None,
    ) -> Self:
        """Return an index of *rows*: columns ``key``, ``value``, ``valid_from`` and ``valid_to``.

        They are best sorted by key and start, as a store, a snapshot and a partition's reader give
        them; other orders are sorted. A null value is a deletion. Without ``valid_to`` a version
        ends where the next one starts.

        Args:
            rows: The versions, all of which are kept in memory.
            specification: Says that keys and values are bytes, and gives the serdes by which the
                questions' keys are encoded and the answers decoded: decoding what was found costs
                less than decoding the whole history. By default questions and answers have the
                columns' own types.
            horizon_ms: The retention horizon, stream time less retention: before it, only a
                version that is the latest is found, as in a store. By default all rows are found.

        Raises:
            InvalidArgumentError: A column is missing or of a type that cannot be taken, a key is
                null, or two versions have the same key and start.
        """
        table = _table_of(rows)
        if not {"key", "value", "valid_from"} <= set(table.schema.names):
            raise InvalidArgumentError(
                f"the columns {table.schema.names!r} are no versions; expected key, value, "
                "valid_from and valid_to"
            )
        keys, values = _joined(table["key"]), _joined(table["value"])
        if keys.null_count:
            raise InvalidArgumentError("the column 'key' has nulls, and every row needs a key")
        starts = time_column(
            _joined(table["valid_from"]), pa.field("valid_from", _TIME, nullable=False)
        )
        ends = None
        if "valid_to" in table.schema.names:
            ends = time_column(_joined(table["valid_to"]), pa.field("valid_to", _TIME))
        return cls(keys, values, starts.to_numpy(), ends, horizon_ms, specification)

    def __len__(self) -> int:
        """Return the number of versions."""
        return len(self._starts)

    @property
    def nbytes(self) -> int:
        """The memory that the index takes, in bytes."""
        numbers = (self._ranks, self._starts, self._ends, self._is_latest, self._times)
        return int(self._keys.nbytes + self._values.nbytes + sum(array.nbytes for array in numbers))

    def encode_keys(self, keys: pa.Array) -> pa.Array:
        """Return *keys* as `find` takes them.

        Raises:
            SerializationError: They are of another type than the index's.
        """
        return _alike(keys, self._key_type) if self._encode is None else self._encode(keys)

    def find(self, keys: pa.Array, times_ms: pa.Array) -> Found:
        """Return the version of each of the encoded *keys* that is valid at its time, inclusive.

        *times_ms* is int64. Null where a key or time is null.

        Raises:
            SerializationError: A value is not the serde's.
        """
        rows = self._rows(keys, times_ms) if len(self) else pa.nulls(len(keys), _TIME)
        values = self._values.take(rows)
        values = values.cast(_narrow(values.type))
        return Found(
            values if self._decode is None else self._decode(values),
            pa.array(self._starts).take(rows),
            pa.array(self._ends, mask=self._is_latest).take(rows),
        )

    def _rows(self, keys: pa.Array, times_ms: pa.Array) -> pa.Array:
        """Return the row of the version that is valid for each of *keys*; null for none."""
        codes = pc.index_in(keys.cast(self._keys.type), value_set=self._keys, skip_nulls=True)
        known: Flags = codes.is_valid().to_numpy(zero_copy_only=False)
        known &= times_ms.is_valid().to_numpy(zero_copy_only=False)
        numbers: Numbers = codes.fill_null(0).to_numpy().astype(np.int64)
        times: Numbers = times_ms.fill_null(0).to_numpy()
        # The last version of the key, or of a key before it, that starts up to the time.
        since = np.searchsorted(self._times, times, side="right") - 1
        rows = np.searchsorted(self._ranks, self._rank(numbers, since), side="right") - 1
        first_of_key = self._rank(numbers, np.zeros_like(since))
        known &= (since >= 0) & (rows >= 0)
        known &= self._ranks[rows] >= first_of_key
        latest = self._is_latest[rows]
        known &= latest | (times < self._ends[rows])
        if self._horizon_ms is not None:
            known &= latest | (times >= self._horizon_ms)
        found = pa.array(rows, _TIME, mask=~known)
        if self._values.null_count:  # deletions
            deleted = self._values.is_null().to_numpy(zero_copy_only=False)
            found = pa.array(rows, _TIME, mask=~known | deleted[rows])
        return found

    def _rank(self, codes: Numbers, time_ranks: Numbers) -> Numbers:
        """Return numbers that ascend by key and start; both have less than 2**31 values."""
        ranks: Numbers = codes * np.int64(len(self._times)) + time_ranks
        return ranks


def _table_of(rows: HistoryRows) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    batches = [rows] if isinstance(rows, pa.RecordBatch) else list(rows)
    if not batches:
        raise InvalidArgumentError(
            "the history has no batches, and so no columns; give an empty table with the schema"
        )
    return pa.Table.from_batches(batches)


def _joined(column: pa.ChunkedArray) -> pa.Array:
    """Return *column* as one array of a plain type, with 64-bit offsets where it needs them."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type in _LARGE and column.nbytes > _OFFSETS_OF_32_BITS:
        column = column.cast(_LARGE[column.type])
    return column.combine_chunks()


def _narrow(arrow_type: pa.DataType) -> pa.DataType:
    return _NARROW.get(arrow_type, arrow_type)


def _alike(keys: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Return *keys* as *arrow_type*, from another layout or width of the same type.

    Raises:
        SerializationError: They are of another type, or do not fit.
    """
    plain = map_chunks(lambda array: array, keys, None)
    families = (is_binary, is_text, pa.types.is_integer, pa.types.is_null)
    if plain.type == arrow_type:
        return plain
    if pa.types.is_null(plain.type) or any(
        family(plain.type) and family(arrow_type) for family in families
    ):
        try:
            return plain.cast(arrow_type)
        except pa.ArrowInvalid as error:
            raise SerializationError(f"the keys do not fit into {arrow_type}: {error}") from error
    raise SerializationError(f"the keys are {arrow_type}, got a column of {plain.type}")
