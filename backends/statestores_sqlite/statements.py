"""The SQL of reading and writing pairs, the same for SQLite and PostgreSQL."""

CHECKSUM = "crc32"
"""The column of a row's checksum, in files that have them."""


class Statements:
    """The statements on one table. They are constant: SQLite compiles each once per connection.

    The name of the table has been checked, and everything else arrives as a parameter.
    """

    __slots__ = ("_counts", "_edges", "_rows", "columns", "delete", "get", "table", "upsert")

    def __init__(self, table: str, mark: str, *, checksums: bool = False) -> None:
        """Form the statements on *table*; *mark* is how the driver spells a parameter.

        With *checksums* each row has one after its value, which is read and written with it.
        """
        self.table = table
        checksum, its_mark, its_update = (
            (f", {CHECKSUM}", f", {mark}", f", {CHECKSUM} = excluded.{CHECKSUM}")
            if checksums
            else ("", "", "")
        )
        self.columns = f"key, value{checksum}"
        above = f"WHERE key >= {mark}"
        ranges = {False: above, True: f"{above} AND key < {mark}"}
        orders = {False: "ASC", True: "DESC"}
        self.get = f"SELECT value{checksum} FROM {table} WHERE key = {mark}"  # noqa: S608
        self.upsert = (
            f"INSERT INTO {table} ({self.columns}) VALUES ({mark}, {mark}{its_mark}) "  # noqa: S608
            f"ON CONFLICT (key) DO UPDATE SET value = excluded.value{its_update}"
        )
        self.delete = f"DELETE FROM {table} WHERE key = {mark}"  # noqa: S608
        self._rows = {
            (bounded, reverse): f"SELECT {self.columns} FROM {table} {keys} ORDER BY key {order}"  # noqa: S608
            for bounded, keys in ranges.items()
            for reverse, order in orders.items()
        }
        self._edges = {case: f"{rows} LIMIT 1" for case, rows in self._rows.items()}
        self._counts = {
            bounded: f"SELECT count(*) FROM {table} {keys}"  # noqa: S608
            for bounded, keys in ranges.items()
        }

    def rows(self, start: bytes, stop: bytes | None, *, reverse: bool) -> tuple[str, list[bytes]]:
        """Return statement and parameters for the rows with ``start <= key < stop``."""
        return self._rows[stop is not None, reverse], _bounds(start, stop)

    def edge(self, start: bytes, stop: bytes | None, *, reverse: bool) -> tuple[str, list[bytes]]:
        """Return statement and parameters for the first of these rows."""
        return self._edges[stop is not None, reverse], _bounds(start, stop)

    def count(self, start: bytes, stop: bytes | None) -> tuple[str, list[bytes]]:
        """Return statement and parameters for their number."""
        return self._counts[stop is not None], _bounds(start, stop)


def _bounds(start: bytes, stop: bytes | None) -> list[bytes]:
    return [start] if stop is None else [start, stop]
