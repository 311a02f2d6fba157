"""Rows: values with a schema, which the store remembers; and keys that sort as their fields do."""

from statestores.serdes.rows.row_serde import RowSerde, row
from statestores.serdes.rows.sorted_row_serde import SortedRowSerde, row_sorted

__all__ = ["RowSerde", "SortedRowSerde", "row", "row_sorted"]
