"""A snapshot in place of its engine, so that several reads of a facade see one commit."""

from collections.abc import Iterator, Sequence

from statestores.spi.engine import Engine, EngineSnapshot


class FrozenEngine(EngineSnapshot):
    """Reads an engine's snapshot. Closing leaves it open: it belongs to whoever froze it."""

    def __init__(self, engine: "Engine | FrozenEngine", snapshot: EngineSnapshot) -> None:
        """Read *snapshot*, which is one of *engine*."""
        self._engine = engine
        self._snapshot = snapshot

    def get(self, key: bytes) -> bytes | None:
        return self._snapshot.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._snapshot.get_many(keys)

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._snapshot.first(start, stop)

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._snapshot.last(start, stop)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._snapshot.scan(start, stop, reverse=reverse)

    def scan_ahead(
        self, start: bytes, stop: bytes | None, limit: int, *, reverse: bool = False
    ) -> tuple[Sequence[tuple[bytes, bytes]], Iterator[tuple[bytes, bytes]] | None]:
        return self._snapshot.scan_ahead(start, stop, limit, reverse=reverse)

    def snapshot(self) -> "FrozenEngine":
        """Return this: it is a view of one instant already."""
        return self

    def approximate_num_keys(self, start: bytes, stop: bytes | None = None) -> int:
        """Estimate as the engine does, at this moment: a later commit may count."""
        return self._engine.approximate_num_keys(start, stop)

    def close(self) -> None:
        pass
