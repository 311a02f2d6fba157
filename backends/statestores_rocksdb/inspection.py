"""What is checked before RocksDB opens a database: damage that it would not report.

Without the file CURRENT, RocksDB starts an empty database and deletes the files of the old one;
without a write-ahead log, it goes on as if there had been none; a log that was cut before a newer
one, it takes for whole, leaving a hole; at certain damage in a log, it never returns.

A killed process leaves all logs whole but the newest, which may be cut within its last batch.
Everything else is damage, or a power failure that hit two logs at the same time, and is refused:
what was lost cannot be told from here.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

from statestores.errors import StoreCorruptedError
from statestores_rocksdb.clean_close import check_seal
from statestores_rocksdb.log_structure import LogStructure, read_structure
from statestores_rocksdb.options import WalRecovery

_FIRST_MANIFEST = "MANIFEST-000001"
"""What CURRENT names until the first opening is complete, and never again."""


def inspect(directory: Path, recovery: WalRecovery, oldest_log: Callable[[], int]) -> None:
    """Look at the database in *directory*; nothing is changed, unless *recovery* says to cut.

    *oldest_log* gives the number of the oldest log that is needed. It costs as much as opening,
    and is asked only when an older log looks wrong, which may be one due for deletion.

    Requires: the caller holds the directory's lock.

    Raises:
        StoreCorruptedError: The files are damaged or incomplete.
        OSError: They cannot be read.
    """
    names = {entry.name for entry in directory.iterdir()}
    current = directory / "CURRENT"
    manifest = current.read_text(errors="replace").strip() if "CURRENT" in names else None
    logs = [directory / name for name in sorted(names) if re.fullmatch(r"\d+\.log", name)]
    _check_complete(directory, names, manifest, logs)
    check_seal(directory)
    if manifest in names:
        damage = read_structure(directory / manifest).damage
        if damage is not None:
            raise _damaged(directory / manifest, f"at byte {damage}")
    _check_logs(logs, recovery, oldest_log)


def _check_complete(
    directory: Path, names: set[str], manifest: str | None, logs: list[Path]
) -> None:
    """Refuse a database without CURRENT, or without any log.

    There is always a log, even after a clean close: it is missing only if it was removed, say by a
    job that cleans up ``*.log``.
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


def _check_logs(logs: list[Path], recovery: WalRecovery, oldest_log: Callable[[], int]) -> None:
    """Refuse or cut *logs*, the oldest first, where they do not continue each other."""
    meet = _MEETINGS[recovery]
    structures: list[LogStructure] = []
    for index, log in enumerate(logs):
        structure = read_structure(log)
        structures.append(structure)
        if structure.damage is not None:
            meet(logs[index:], structure.damage, f"at byte {structure.damage}")
    # Only now, since RocksDB may not return from opening damaged logs.
    for index, structure in enumerate(structures):
        newer = [each.first_sequence for each in structures[index + 1 :]]
        begins = next((first for first in newer if first is not None), structure.next_sequence)
        # A log that was cut within a batch does not have its number, so the number tells of both.
        if begins != structure.next_sequence and int(logs[index].stem) >= oldest_log():
            problem = (
                f"at its end: it is cut short, or a log after it is missing; the newer one begins "
                f"with change {begins}, expected {structure.next_sequence or 'an older one'}"
            )
            meet(logs[index:], logs[index].stat().st_size, problem)


def _refuse(logs: list[Path], _: int, where: str) -> None:
    """Raise for the damage that is in the first of *logs*, *where* it is."""
    raise _damaged(logs[0], where)


def _cut(logs: list[Path], offset: int, _: str) -> None:
    """Cut the first of *logs* at *offset*, and empty the newer ones: they would leave a hole."""
    os.truncate(logs[0], offset)
    for newer in logs[1:]:
        os.truncate(newer, 0)


_MEETINGS = {WalRecovery.REFUSE_DAMAGE: _refuse, WalRecovery.CUT_AT_DAMAGE: _cut}
"""How damage in a log, and in those after it, is met."""


def _damaged(path: Path, where: str) -> StoreCorruptedError:
    return StoreCorruptedError(
        f"{str(path)!r} is damaged {where}; restore the store from its changelog or a snapshot"
    )
