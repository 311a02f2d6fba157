"""The RocksDB backend, on the `rocksdict` driver in raw mode.

Read `engine`, then `frozen_view`, on which everything but a single `get` rests; `database` opens
the files, `failures` translates what the driver raises. `docs/backends/rocksdb.md` says what the
engine promises, what damage does to it and what the driver makes necessary.
"""

from statestores_rocksdb.engine import RocksDBEngine
from statestores_rocksdb.options import Compression, RocksDBOptions, WalRecovery

__all__ = ["Compression", "RocksDBEngine", "RocksDBOptions", "WalRecovery"]
