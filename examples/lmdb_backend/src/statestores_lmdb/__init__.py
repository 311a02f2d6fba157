"""The LMDB backend for statestores.

Read `engine` first, then `database`; `layers` and `walks` are how keys of any length fit into LMDB,
whose keys end at 511 bytes.
"""

from statestores_lmdb.engine import LMDBEngine
from statestores_lmdb.options import LMDBOptions

__all__ = ["LMDBEngine", "LMDBOptions"]
