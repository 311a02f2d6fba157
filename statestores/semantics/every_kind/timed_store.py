"""A store over an engine whose puts have times: what its owner is told about stream time."""

from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.semantics.rows.progress import known_time
from statestores.spi.stores.stream_time import ReadOnlyTimedStore


class TimedStore(EngineStore[bytes, bytes], ReadOnlyTimedStore):
    """What the kinds with a stream time have in common; each moves it in its own puts."""

    _stream_time: int

    @property
    def stream_time_ms(self) -> int | None:
        self.check_open()
        return known_time(self._stream_time)
