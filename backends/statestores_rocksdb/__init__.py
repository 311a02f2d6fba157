"""The RocksDB backend."""
