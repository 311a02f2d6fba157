"""The rows that one commit changes: those of the pending writes, and what is added to them."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TypeAlias


class RowBatch(Mapping[bytes, bytes | None]):
    """A batch that need not be a ``dict``: a kind may have it show its pending writes as they are.

    An engine only iterates over it. A commit in doubt looks at all of it once more, as a copy.
    """

    __slots__ = ()

    @abstractmethod
    def __setitem__(self, row_key: bytes, row: bytes | None) -> None:
        """Add a row that no pending write changes: of an offset, or of the position."""


CommitBatch: TypeAlias = dict[bytes, bytes | None] | RowBatch
"""What a kind gives to its commit."""
