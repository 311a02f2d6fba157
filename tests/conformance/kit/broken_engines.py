"""Engines that are wrong in one way each, to prove that the crash kit finds it."""

from statestores.spi import Durability, WriteBatch
from statestores_rocksdb import RocksDBEngine


class TearingEngine(RocksDBEngine):
    """Applies a batch change by change: a crash leaves a part of it."""

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply change by change."""
        for key, value in batch.items():
            super().apply({key: value}, Durability.PROCESS_CRASH)


class OffsetFirstEngine(RocksDBEngine):
    """Applies the offset before the data: a crash leaves an offset that is ahead."""

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply twice."""
        super().apply({key: batch[key] for key in batch if key[:1] == b"\x01"}, durability)
        super().apply({key: batch[key] for key in batch if key[:1] != b"\x01"}, durability)


class LateEngine(RocksDBEngine):
    """Holds a batch back until the next one: a crash forgets what was promised."""

    _held: WriteBatch | None = None

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply the batch before."""
        held, self._held = self._held, dict(batch)
        if held is not None:
            super().apply(held, durability)


class ForgetfulEngine(RocksDBEngine):
    """Leaves out every tenth deletion: no crash is needed to go wrong, but one shows it."""

    _deletions = 0

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply most of it."""
        kept = {}
        for key, value in batch.items():
            self._deletions += value is None
            if value is not None or self._deletions % 10:
                kept[key] = value
        super().apply(kept, durability)
