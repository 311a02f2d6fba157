"""How a DuckDB database is opened."""

from dataclasses import dataclass

from statestores.errors import InvalidOptionError

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckDBOptions:
    """What may be chosen about a DuckDB database.

    What protects the data is not a choice: every commit waits for the disk.
    """

    memory_bytes: int = 256 * _MIB
    """What the database may keep in memory before it spills into its directory. DuckDB's own
    default, four fifths of the machine, suits a program that has one database."""

    threads: int = 1
    """Threads for each query. The queries of a store read a few rows; more threads help who counts
    or scans large ranges."""

    log_bytes: int = 16 * _MIB
    """How long the log may grow before its batches are moved into the file. Longer: fewer moves,
    and a longer opening after a crash."""

    def __post_init__(self) -> None:
        """Refuse sizes with which DuckDB could not hold the largest pair, or would not start."""
        for name, value, lowest, highest in (
            ("memory_bytes", self.memory_bytes, 64 * _MIB, 1 << 46),
            ("threads", self.threads, 1, 1024),
            ("log_bytes", self.log_bytes, 64 * 1024, 1 << 46),
        ):
            if not lowest <= value <= highest:
                raise InvalidOptionError(
                    f"option {name!r} must be from {lowest} to {highest}, got {value!r}"
                )

    def settings(self) -> dict[str, str | bool | int | float | list[str]]:
        """Return them as DuckDB's settings, with those that are not a choice."""
        return {
            "memory_limit": f"{self.memory_bytes}B",
            "threads": str(self.threads),
            "checkpoint_threshold": f"{self.log_bytes}B",
            # A store reads and writes its own file, and fetches no code.
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
