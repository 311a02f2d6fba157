"""What differs between SQLite's file and a table on a server."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from statestores.errors import StateStoreError, StoreClosedError
from statestores.spi import Durability, WriteBatch
from statestores_sqlite.failures import closed
from statestores_sqlite.readers import Reader
from statestores_sqlite.statements import Statements


class Database(ABC):
    """One table of pairs, with the connection that writes it and the lock on it."""

    mark: ClassVar[str]
    """How the driver spells a parameter."""

    reader: type[Reader]
    """What `open_reader` opens."""

    _statements: Statements
    """What is said to the table, known once it is known what is in it."""

    def __init__(self, directory: Path, errors: tuple[type[Exception], ...]) -> None:
        """Have the table of the engine in *directory*; its calls raise *errors*."""
        self.path = str(directory)
        self.errors = errors

    @abstractmethod
    def open_reader(self) -> Reader:
        """Open a connection that reads."""

    @abstractmethod
    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply *batch* in one transaction."""

    @abstractmethod
    def copy_to(self, target: Path) -> None:
        """Copy the content to an engine in the new directory *target*, where that is possible.

        Raises:
            CapabilityNotSupportedError: It is not.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the writing connection, and release the lock. Idempotent."""

    @abstractmethod
    def translated(self, error: Exception) -> StateStoreError:
        """Return the error to raise for *error*, which is one of `errors`."""

    def closed(self) -> StoreClosedError:
        """Return the error for a call after `close`."""
        return closed(self.path)
