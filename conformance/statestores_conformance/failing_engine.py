"""An engine that fails on request: faults are an ordinary implementation of the seam."""

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Self

from statestores.errors import StorageError
from statestores.spi import Capabilities, Durability, Engine, EngineSnapshot, WriteBatch


class FailingEngine(Engine):
    """Passes everything on to another engine, except for the batches that are to fail."""

    name = "failing"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.batches: list[WriteBatch] = []
        """Every batch that was applied, in order."""
        self.fail_at: int | None = None
        """How many batches are still applied before one fails; ``None``: all are."""

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # of the engine behind
        """What the engine behind promises."""
        return self._engine.capabilities

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        raise NotImplementedError("a FailingEngine wraps an engine that is open")

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        if self.fail_at == 0:
            raise StorageError("the disk is full, as the test wants it")
        if self.fail_at is not None:
            self.fail_at -= 1
        self._engine.apply(batch, durability)
        self.batches.append(dict(batch))

    def get(self, key: bytes) -> bytes | None:
        return self._engine.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._engine.get_many(keys)

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._engine.first(start, stop)

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        return self._engine.last(start, stop)

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._engine.scan(start, stop, reverse=reverse)

    def snapshot(self) -> EngineSnapshot:
        return self._engine.snapshot()

    @property
    def is_open(self) -> bool:
        return self._engine.is_open

    def close(self) -> None:
        self._engine.close()
