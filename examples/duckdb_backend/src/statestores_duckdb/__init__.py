"""The DuckDB backend for statestores.

Read `engine` first, then `database`; `views` has the statements that read.
"""

from statestores_duckdb.engine import DuckDBEngine
from statestores_duckdb.options import DuckDBOptions

__all__ = ["DuckDBEngine", "DuckDBOptions"]
