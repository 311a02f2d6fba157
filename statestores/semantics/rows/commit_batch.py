"""The rows that one commit changes: those of the pending writes, and what is added to them."""

from abc import abstractmethod
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import TypeAlias, cast


class RowBatch(Mapping[bytes, bytes | None]):
    """A batch that need not be a ``dict``: a kind may have it show its pending writes as they are.

    An engine only iterates over it. A commit in doubt looks at all of it once more, as a copy.
    """

    __slots__ = ()

    @abstractmethod
    def __setitem__(self, row_key: bytes, row: bytes | None) -> None:
        """Add a row that no pending write changes: of an offset, or of the position."""

    @abstractmethod
    def rows(self) -> Iterator[bytes | None]:
        """Iterate over the rows, in the order of their keys in the batch."""

    def pairs(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Iterate over keys and rows."""
        return zip(self, self.rows(), strict=True)

    def items(self) -> ItemsView[bytes, bytes | None]:
        return _Pairs(self)

    def values(self) -> ValuesView[bytes | None]:
        return _Rows(self)


class ColumnBatch(RowBatch):
    """A batch of columns, and rows of other namespaces: single rows are found if somebody looks.

    A commit that ends looks none up, so a dictionary of them is made when one is asked for.
    """

    __slots__ = ("_by_key", "_others")

    def __init__(self) -> None:
        self._others: dict[bytes, bytes | None] = {}
        self._by_key: dict[bytes, bytes | None] | None = None

    def __setitem__(self, row_key: bytes, row: bytes | None) -> None:
        """Add a row that is not in the columns."""
        self._others[row_key] = row

    def __getitem__(self, row_key: bytes) -> bytes | None:
        if row_key in self._others:
            return self._others[row_key]
        if self._by_key is None:
            self._by_key = dict(self.pairs())
        return self._by_key[row_key]


class _Pairs(ItemsView[bytes, bytes | None]):
    """Keys and rows: the mix-in's own iterator looks each of them up."""

    _mapping: RowBatch

    def __iter__(self) -> Iterator[tuple[bytes, bytes | None]]:
        return self._mapping.pairs()


class _Rows(ValuesView[bytes | None]):
    """The rows: likewise."""

    _mapping: RowBatch

    def __contains__(self, row: object) -> bool:
        return row in cast("Iterator[object]", self._mapping.rows())

    def __iter__(self) -> Iterator[bytes | None]:
        return self._mapping.rows()


CommitBatch: TypeAlias = dict[bytes, bytes | None] | RowBatch
"""What a kind gives to its commit."""
