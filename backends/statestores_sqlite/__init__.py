"""The SQLite backend; the same engine runs on a PostgreSQL URL."""

from statestores_sqlite.engine import PostgreSQLEngine, SQLiteEngine
from statestores_sqlite.options import PostgreSQLOptions, SQLiteOptions

__all__ = ["PostgreSQLEngine", "PostgreSQLOptions", "SQLiteEngine", "SQLiteOptions"]
