"""The state of another library, as stores with rows: what an import needs to know of it."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from statestores.errors import StoreNotFoundError
from statestores.spi.closing import Closing
from statestores.spi.kinds import KEY_VALUE, SESSION, VERSIONED, WINDOW, Kind
from statestores.spi.offsets import TopicPartition

_KEY = pa.field("key", pa.binary(), nullable=False)
_VALUE = pa.field("value", pa.binary(), nullable=False)

PEER_ROW_SCHEMAS: Mapping[Kind, pa.Schema] = {
    KEY_VALUE: pa.schema([_KEY, _VALUE]),
    VERSIONED: pa.schema([_KEY, _VALUE, pa.field("valid_from", pa.int64(), nullable=False)]),
    WINDOW: pa.schema(
        [
            _KEY,
            pa.field("window_start", pa.int64(), nullable=False),
            pa.field("sequence", pa.int32(), nullable=False),
            _VALUE,
        ]
    ),
    SESSION: pa.schema(
        [
            _KEY,
            pa.field("session_start", pa.int64(), nullable=False),
            pa.field("session_end", pa.int64(), nullable=False),
            _VALUE,
        ]
    ),
}
"""The columns of the rows of each kind that a peer's store can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStore:
    """One store of another library."""

    name: str
    """Its name here."""

    kinds: tuple[Kind, ...]
    """The kinds that it can be; more than one where its bytes do not tell, none with a problem."""

    partitions: tuple[int, ...]
    """The partitions that are there. Empty where the library has none that Kafka's are like:
    its keys are then placed as ours are."""

    window_size_ms: int | None = None
    """How long its windows are, if it may have windows."""

    places_by_key: bool = False
    """Whether each key is in the partition that its own bytes give (PAR-2)."""

    problem: str | None = None
    """Why no store here can be what it is."""

    @property
    def kind(self) -> Kind | None:
        """The kind, where it is certain."""
        return self.kinds[0] if len(self.kinds) == 1 else None


class PeerState(Closing, ABC):
    """The stores that another library has left behind, to be read and not written."""

    path: Path
    """Where they are."""

    @abstractmethod
    def stores(self) -> Sequence[PeerStore]:
        """Return all stores, by name."""

    def store(self, name: str) -> PeerStore:
        """Return the store *name*.

        Raises:
            StoreNotFoundError: There is none.
        """
        found = {each.name: each for each in self.stores()}
        if name not in found:
            known = ", ".join(map(repr, found)) or "none"
            raise StoreNotFoundError(
                f"there is no store {name!r} in {str(self.path)!r}; there are: {known}"
            )
        return found[name]

    @abstractmethod
    def read(
        self, store: str, partition: int | None, kind: Kind
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of *partition* of *store* with the columns of `PEER_ROW_SCHEMAS` (MIG-16).

        *partition* is ``None`` for a store without partitions.

        Raises:
            StoreNotFoundError: There is no such store or partition.
            StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
        """

    @abstractmethod
    def offsets(self, store: str, partition: int) -> Mapping[TopicPartition, int]:
        """Return the offset of the last record of its changelog that *partition* has (MIG-17)."""


def partition_in(found: Mapping[int, Path], partition: int | None, what: str, place: Path) -> Path:
    """Return where *partition* of *what* is, of those that were *found* in *place*.

    Raises:
        StoreNotFoundError: There is no such partition.
    """
    if partition is None or partition not in found:
        raise StoreNotFoundError(
            f"there is no partition {partition!r} of {what} in {str(place)!r}; there are: "
            f"{', '.join(map(str, found))}"
        )
    return found[partition]
