"""Rows of a commit that come as columns: they need no dictionary to reach an engine."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TypeAlias

from statestores.semantics.rows.commit_batch import ColumnBatch


class ColumnRows(ColumnBatch):
    r"""A column of keys and one of rows, and rows of other namespaces: the batch of a commit.

    >>> batch = ColumnRows([b"\x02key"], [b"value"])
    >>> batch[b"\x01row"] = b"1"
    >>> list(batch.items())
    [(b'\x02key', b'value'), (b'\x01row', b'1')]
    """

    __slots__ = ("_keys", "_rows")

    def __init__(self, keys: list[bytes], rows: list[bytes | None]) -> None:
        """Take columns of equal length. Requires: no key comes twice."""
        super().__init__()
        self._keys = keys
        self._rows = rows

    def update(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Add rows that are not in the columns."""
        self._others.update(rows)

    def __iter__(self) -> Iterator[bytes]:
        return chain(self._keys, self._others)

    def __len__(self) -> int:
        return len(self._keys) + len(self._others)

    def pairs(self) -> Iterator[tuple[bytes, bytes | None]]:
        return chain(zip(self._keys, self._rows, strict=True), self._others.items())

    def rows(self) -> Iterator[bytes | None]:
        return chain(self._rows, self._others.values())


RetainedBatch: TypeAlias = dict[bytes, bytes | None] | ColumnRows
"""The rows of a commit, of which those that expire may still be deleted."""
