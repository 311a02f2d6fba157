"""How an LMDB environment is opened."""

from dataclasses import dataclass

from statestores.errors import InvalidOptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class LMDBOptions:
    """What may be chosen about an LMDB environment.

    What protects the data is not a choice: every commit waits for the disk. LMDB's way of not
    waiting (``MDB_NOSYNC``) lets a power failure destroy the file, not only its last commits.
    """

    map_bytes: int = 16 * 1024**3
    """Addresses reserved for the file, which can grow no further. They cost neither memory nor
    disk. When the file outgrows them they are doubled, but never under an open scan or snapshot: a
    small map can therefore refuse a batch that a large one takes."""

    max_views: int = 1024
    """Commits that may be seen at the same time by scans and snapshots that are still open. Each
    costs 64 bytes; LMDB's own 126 are few for a process that hands out snapshots."""

    readahead: bool = True
    """Let the operating system read ahead. ``false`` suits random reads of a file that is larger
    than the memory."""

    def __post_init__(self) -> None:
        """Refuse sizes that LMDB would refuse later, or bend."""
        for name, value, lowest, highest in (
            ("map_bytes", self.map_bytes, 64 * 1024, 1 << 46),
            ("max_views", self.max_views, 1, 1 << 20),
        ):
            if not lowest <= value <= highest:
                raise InvalidOptionError(
                    f"option {name!r} must be from {lowest} to {highest}, got {value!r}"
                )
