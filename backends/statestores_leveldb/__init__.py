"""The LevelDB backend."""

from statestores_leveldb.engine import LevelDBEngine
from statestores_leveldb.options import Compression, LevelDBOptions

__all__ = ["Compression", "LevelDBEngine", "LevelDBOptions"]
