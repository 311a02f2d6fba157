"""A store's rows as its engine has them, for those who make columns of them."""

from itertools import islice

from statestores.semantics.rows.layout import read_offsets, read_position
from statestores.spi.closing import Closing
from statestores.spi.engine import EngineSnapshot


class CommittedRows(Closing):
    """The rows between two keys of the engine at one commit, in their order."""

    def __init__(self, snapshot: EngineSnapshot, start: bytes, stop: bytes) -> None:
        """Take *snapshot* over: `close` closes it."""
        self.offsets = read_offsets(snapshot)
        """The committed offset of each partition."""
        self.position = read_position(snapshot)
        """The input offsets that the rows reflect."""
        self._snapshot = snapshot
        self._rows = snapshot.scan(start, stop)

    def read(self, limit: int) -> list[tuple[bytes, bytes]]:
        """Return the next rows, *limit* of them; fewer only at the end.

        Raises:
            StoreClosedError: The store is closed, or this is.
        """
        return list(islice(self._rows, limit))

    def close(self) -> None:
        self._snapshot.close()
