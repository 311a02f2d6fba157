"""The values of both sides of a join of streams, as a joiner is given them and a store has them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from statestores.processing.columns.column import Column, NotOnColumnsError, Numbers, is_exact
from statestores.processing.columns.streams.rows import JoinRows, StoredRows
from statestores.processing.columns.task_rows import TaskRows
from statestores.processing.stores import value_serde


class JoinValues:
    """The values of the rows of a batch, and of what the stores have for them."""

    def __init__(self, rows: JoinRows, stored: dict[bool, StoredRows], task: TaskRows) -> None:
        """Have the values of *rows*, and those that are *stored* for each side.

        Raises:
            SerializationError: One cannot be encoded, or decoded.
        """
        self._rows = rows
        self._serdes = {
            is_left: value_serde(task.store(rows.store_of(is_left=is_left)).specification)
            for is_left in (True, False)
        }
        self.are_exact = all(map(is_exact, self._serdes.values()))
        """Whether no joiner can change a value in place."""
        self.given = np.full(len(rows), None, object)
        """The values of the rows."""
        self.data = np.full(len(rows), None, object)
        """Their bytes."""
        for is_left, side in rows.sides.items():
            at = rows.at[is_left]
            self.given[at] = objects_of(side.columns.value.objects())
            encoded = side.columns.value.encoded(self._serdes[is_left])
            self.data[at] = objects_of(encoded.to_pylist())
        self._stored = {is_left: each.values for is_left, each in stored.items()}
        self._decoded: dict[bool, Any] = {}
        if self.are_exact:
            for is_left, serde in self._serdes.items():
                data = self.data.copy()
                data[rows.is_left != is_left] = None
                several = pa.array([*data, *self._stored[is_left]], pa.binary())
                self._decoded[is_left] = objects_of(Column.decoded(several, serde).objects())

    def others(self, places: Any, *, is_left: bool) -> Any:
        """Return what rows of a side have left in their store, as it is read there.

        Requires: no joiner can change a value in place.
        """
        return self._decoded[is_left][places]

    def other(self, place: int, *, is_left: bool) -> Any:
        """Return likewise what one has left."""
        data = self._stored[is_left][place] if place < 0 else self.data[place]
        return self._serdes[is_left].decode(data)

    def check_unchanged(self, places: Numbers) -> None:
        """Accept that a joiner has been given the values of the rows at *places*.

        Raises:
            NotOnColumnsError: It has changed one: the store and what came out before would have it.
        """
        sides = self._rows.is_left
        for place in np.unique(places).tolist():
            if self._serdes[bool(sides[place])].encode(self.given[place]) != self.data[place]:
                raise NotOnColumnsError("a joiner changes what it is given")


def objects_of(values: Sequence[Any]) -> Any:
    """Return *values* as an array of objects, whatever they are."""
    array = np.empty(len(values), object)
    for at, value in enumerate(values):
        array[at] = value
    return array
