"""The SQLite backend; the same engine runs on a PostgreSQL URL."""
