"""What is looked at before RocksDB opens a database: damage that it would not tell of.

Without the file CURRENT it starts an empty database and deletes the files of the old one; without
a write-ahead log it goes on as if there had been none; at certain damage in a log it never returns.
"""

import os
import re
from pathlib import Path

from statestores.errors import StorageError, StoreCorruptedError
from statestores_rocksdb.clean_close import check_seal
from statestores_rocksdb.log_structure import find_damage
from statestores_rocksdb.options import WalRecovery

_FIRST_MANIFEST = "MANIFEST-000001"
"""What CURRENT names until the first opening is complete, and never again."""


def inspect(directory: Path, recovery: WalRecovery) -> None:
    """Look at the database in *directory*; nothing is changed, unless *recovery* is to cut.

    Requires: the caller holds the directory's lock.

    Raises:
        StoreCorruptedError: The files are damaged or incomplete.
        StorageError: They cannot be read.
    """
    try:
        names = {entry.name for entry in directory.iterdir()}
        current = directory / "CURRENT"
        manifest = current.read_text(errors="replace").strip() if "CURRENT" in names else None
        logs = sorted(name for name in names if re.fullmatch(r"\d+\.log", name))
        _check_complete(directory, names, manifest, logs)
        check_seal(directory)
        if manifest in names:
            _check_log(directory / manifest, WalRecovery.REFUSE_DAMAGE)
        for log in logs:
            _check_log(directory / log, recovery)
    except OSError as error:
        if isinstance(error, StoreCorruptedError | StorageError):
            raise
        raise StorageError(
            f"cannot read the RocksDB database in {str(directory)!r}: {error.strerror or error}; "
            "check the rights and the disk"
        ) from error


def _check_complete(
    directory: Path, names: set[str], manifest: str | None, logs: list[str]
) -> None:
    """Refuse a database without CURRENT, or without any log.

    There always is a log, also after a clean close: only removing it, say by a job that cleans up
    ``*.log``, takes it away.
    """
    has_table = any(re.fullmatch(r"\d+\.sst", name) for name in names)
    if manifest is None and (logs or has_table):
        missing = "the file CURRENT"
    elif manifest is not None and not logs and manifest != _FIRST_MANIFEST:
        missing = "every write-ahead log (*.log)"
    else:
        return
    raise StoreCorruptedError(
        f"{missing} of the RocksDB database in {str(directory)!r} is missing; put it back, or "
        "restore the store from its changelog or a snapshot"
    )


def _check_log(path: Path, recovery: WalRecovery) -> None:
    """Refuse or cut a log whose records do not follow each other."""
    damage = find_damage(path)
    if damage is None:
        return
    if recovery is WalRecovery.CUT_AT_DAMAGE:
        os.truncate(path, damage)
        return
    raise StoreCorruptedError(
        f"{str(path)!r} is damaged at byte {damage}; restore the store from its changelog or a "
        "snapshot"
    )
