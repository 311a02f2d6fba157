"""A RocksDB database that another program has written, read without touching it.

RocksDB writes into the directory of a database even when it opens it only to read: a log of what it
does. So it gets a directory of its own, with links to the tables, which never change, and copies of
the small files that name them.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, NoReturn, cast

from statestores.errors import StorageError, StoreCorruptedError
from statestores.files.scratch_directory import scratch_directory
from statestores.serdes.optional_packages import require
from statestores.spi.closing import Closing
from statestores.spi.forking import use_driver

_LINKED = re.compile(r"\d+\.(sst|ldb|log|blob)", re.ASCII)
_TABLE_SUFFIXES = frozenset({".sst", ".ldb"})
_COPIED = re.compile(r"CURRENT|IDENTITY|MANIFEST-\d+|OPTIONS-\d+", re.ASCII)

_TABLES_PER_THREAD = 64
_MOST_THREADS = 16
"""RocksDB starts so many threads to open tables, whether there are as many tables or two: half of
the processor time that it takes to open and read a small database."""


class RocksDBFiles(Closing):
    """An open database; its rows are as of the opening."""

    purpose: ClassVar[str] = "reading a RocksDB database"
    """What the driver is needed for."""

    remedy: ClassVar[str] = "take a copy that its program closed"
    """What to do about damaged files."""

    def __init__(self, path: Path) -> None:
        """Open the database in the directory *path*.

        Raises:
            MissingDriverError: The driver is not installed.
            StoreCorruptedError: The files are damaged or incomplete.
            StorageError: They cannot be read.
        """
        self._path = path
        self._driver: Any = require("rocksdict", purpose=self.purpose, extra="rocksdb")
        self._scratch = ExitStack()
        self._directory = self._scratch.enter_context(scratch_directory())
        self._database: Any = None
        try:
            self._open(self._link())
        except BaseException:
            self.close()
            raise

    def _link(self) -> int:
        """Fill the directory; return how many tables there are."""
        tables = 0
        try:
            place = self._path.resolve()
            for entry in self._path.iterdir():
                target = self._directory / entry.name
                if _LINKED.fullmatch(entry.name):
                    target.symlink_to(place / entry.name)
                    tables += entry.suffix in _TABLE_SUFFIXES
                elif _COPIED.fullmatch(entry.name):
                    shutil.copyfile(entry, target)
        except OSError as error:
            raise StorageError(
                f"cannot read the RocksDB database in {str(self._path)!r}: "
                f"{error.strerror or error}; check the rights and the disk"
            ) from error
        return tables

    def _open(self, tables: int) -> None:
        use_driver("RocksDB")
        driver = self._driver
        directory = str(self._directory)
        try:
            options = driver.Options(raw_mode=True)
            options.set_max_file_opening_threads(
                min(1 + tables // _TABLES_PER_THREAD, _MOST_THREADS)
            )
            self.families: tuple[str, ...] = tuple(driver.Rdict.list_cf(directory, options))
            families = {name: driver.Options(raw_mode=True) for name in self.families}
            access = driver.AccessType.read_only(False)  # noqa: FBT003  # the signature of the driver
            self._database = driver.Rdict(directory, options, families, access)
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            self._fail(error, "open")

    def rows(
        self, family: str = "default", start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the rows of a column family with ``start <= key < stop``, by key.

        Raises:
            StoreCorruptedError, StorageError: The rest cannot be read.
        """
        bounds = self._driver.ReadOptions()  # kept: a running iterator compares with its bytes
        if stop is not None:
            bounds.set_iterate_upper_bound(stop)
        try:
            rows = self._database.get_column_family(family)
            # In raw mode keys and values are bytes; the driver's types tell of all modes at once.
            for pair in rows.items(from_key=start, read_opt=bounds):
                yield cast("tuple[bytes, bytes]", pair)
                start = pair[0]
            # An iterator that met damage looks like one that is at its end.
            cursor = rows.iter(bounds)
            cursor.seek(start + b"\0")
            cursor.status()
            is_over = not cursor.valid()
        except Exception as error:  # noqa: BLE001  # the driver raises the class itself
            self._fail(error, "read")
        if not is_over:
            raise StoreCorruptedError(
                f"the rows of the RocksDB database in {str(self._path)!r} end after {start!r}, and "
                f"there are more; {self.remedy}"
            )

    def close(self) -> None:
        """Close the database, and remove what was made to open it. Idempotent."""
        if self._database is not None:
            self._database.close()
            self._database = None
        self._scratch.close()

    def _fail(self, error: Exception, action: str) -> NoReturn:
        """Raise what the driver's *error* means, with the names of the files that were linked."""
        if type(error) is not Exception:
            raise error
        text = str(error).replace(str(self._directory), str(self._path))
        if text.startswith(("Corruption", "IO error: No such file")):
            raise StoreCorruptedError(
                f"cannot {action} the RocksDB database in {str(self._path)!r}: the files are "
                f"damaged or incomplete ({text}); {self.remedy}"
            ) from error
        raise StorageError(
            f"cannot {action} the RocksDB database in {str(self._path)!r}: {text}"
        ) from error
