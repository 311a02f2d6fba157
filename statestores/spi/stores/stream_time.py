"""What can be asked of a store that sees times: how far it has come, and what lies behind that."""

from abc import abstractmethod

from statestores.spi.stores.store import ReadOnlyStore


class ReadOnlyTimedStore(ReadOnlyStore):
    """The reading half of a kind whose puts have times."""

    @property
    @abstractmethod
    def stream_time_ms(self) -> int | None:
        """The highest time that the visible content has seen; ``None`` at first.

        For a versioned or timestamped store, the highest timestamp (VRS-3, TKV-5); for a window
        store, the highest start (WIN-4); for a session store, the highest end (SES-4).

        Raises:
            StoreClosedError: The store is closed.
        """


class ReadOnlyRetainedStore(ReadOnlyTimedStore):
    """The reading half of a kind whose rows are gone when their time is."""

    @property
    def horizon_ms(self) -> int | None:
        """Stream time minus the retention, of the visible content.

        What lies at or below it is no longer visible; ``None`` while the store has seen nothing.
        Negative as long as nothing can have expired.
        """
        stream_time_ms = self.stream_time_ms
        specification = self.specification
        retention_ms: int = specification.retention_ms  # type: ignore[attr-defined]  # of this kind
        return None if stream_time_ms is None else stream_time_ms - retention_ms
