"""Engines that break their promises, or do what they have not promised."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import ClassVar, Self

from statestores.errors import CapabilityNotSupportedError, InvalidArgumentError
from statestores.spi import Capabilities, Durability
from statestores_memory import MemoryEngine
from statestores_mutants.file_engine import LOG_FILE, FileEngine
from statestores_mutants.registry import mutant


@mutant("ENG-18", "ENG-8", "ENG-12")
class PersistenceIsOnlyDeclared(MemoryEngine):
    """The engine says that it is persistent, and keeps nothing.

    Imitates a volume that was not mounted: everything works until the first restart.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(persistent=True, durable_commit=True)


@mutant("ENG-26")
class DurabilityIsGivenUndeclared(FileEngine):
    """The engine does not declare durable commits, and takes a batch that asks for one.

    Imitates a flag that is accepted and ignored: nobody learns that a power failure loses commits.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(persistent=True)

    def wait_for_the_disk(self) -> None:
        """Do not."""


@mutant("ENG-12", "ENG-8", "COM-12")
class WaitingForTheDiskIsSkipped(FileEngine):
    """Durable commits are declared, and no batch ever waits for the disk.

    Imitates `sync=False` left over from a benchmark, and SPARK-56461: declared, and without effect.
    """

    def wait_for_the_disk(self) -> None:
        """Do not."""


@mutant("ENG-12")
class CheckpointIsUndeclared(FileEngine):
    """The engine makes checkpoints and does not declare it.

    Imitates a capability list that nobody keeps up to date.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True, durable_commit=True, detects_corruption=True, bulk_ingest=True
    )


@mutant("ENG-34", "ENG-12")
class IngestIsOnlyDeclared(FileEngine):
    """Bulk ingestion is declared, and raises when it is asked for.

    Imitates the same list in the other direction.
    """

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self.check_open()
        raise CapabilityNotSupportedError("not in this release")


@mutant("ENG-33")
class CheckpointIsALink(FileEngine):
    """A checkpoint is a hard link to the log, which goes on growing.

    Imitates SPARK-51717 and SPARK-43404: files taken for another snapshot's by name and size.
    """

    def checkpoint(self, path: str | PathLike[str]) -> None:
        self.check_open()
        Path(path).mkdir(parents=True)
        os.link(self.directory / LOG_FILE, Path(path) / LOG_FILE)


@mutant("ENG-33")
class CheckpointIsOfTheOpening(FileEngine):
    """A checkpoint has the content that was there when the engine was opened.

    Imitates a copy of the sorted files without the memtable.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # those of `FileEngine`
        self._flushed = self._end

    def checkpoint(self, path: str | PathLike[str]) -> None:
        super().checkpoint(path)
        os.truncate(Path(path) / LOG_FILE, 0)
        data = (self.directory / LOG_FILE).read_bytes()[: self._flushed]
        (Path(path) / LOG_FILE).write_bytes(data)


@mutant("ENG-12")
class CapabilitiesAreStrings(FileEngine):
    """A capability is the text "false", which is true.

    Imitates options that arrive as strings from Spark.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True,
        durable_commit=True,
        detects_corruption=True,
        native_checkpoint=True,
        bulk_ingest="false",  # type: ignore[arg-type]  # wrong on purpose
    )


@mutant("ENG-23", "ENG-8", "COM-12")
class EmptyDurableBatchDoesNothing(FileEngine):
    """An empty batch that asks for durability returns at once.

    Imitates `if not batch: return`: what was applied before it is not on the disk.
    """

    def log(self, changes: Mapping[bytes, bytes | None], durability: Durability) -> None:
        if changes:
            super().log(dict(changes), durability)

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        return super().open(path, options)


@mutant("ENG-38")
class KeysAreLimitedTooMuch(FileEngine):
    """The engine declares that it takes keys of 500 bytes.

    Imitates LMDB's own limit of 511 bytes, below which no store of ours could keep its keys.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True,
        durable_commit=True,
        detects_corruption=True,
        native_checkpoint=True,
        bulk_ingest=True,
        max_key_bytes=500,
    )


@mutant("ENG-34")
class IngestIsUndoneByHand(FileEngine):
    """`ingest` applies one pair after the other, and deletes them again when it fails.

    Imitates a loader that cleans up after itself, for which its process has to live.
    """

    def ingest(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self.check_open()
        loaded: list[bytes] = []
        try:
            for key, value in pairs:
                _check_order(loaded, key)
                self.apply({key: value}, Durability.PROCESS_CRASH)
                loaded.append(key)
        except BaseException:
            self.apply(dict.fromkeys(loaded), Durability.PROCESS_CRASH)
            raise
        self.apply({}, Durability.POWER_LOSS)


def _check_order(loaded: list[bytes], key: bytes) -> None:
    if loaded and key <= loaded[-1]:
        raise InvalidArgumentError(f"keys must ascend, got {key!r} after {loaded[-1]!r}")


@mutant("ENG-42")
class PathIsRefusedTooLate(FileEngine):
    """A path that the driver does not take is refused when its directory has been made.

    Imitates DuckDB, which reads ``?`` in a path as the beginning of a query: it creates its file,
    and fails when it looks for its log elsewhere.
    """

    capabilities: ClassVar[Capabilities] = replace(FileEngine.capabilities, refused_in_paths="?")

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        engine = super().open(path, options)
        if "?" in os.path.realpath(path):
            engine.close()
            raise InvalidArgumentError(f"? cannot be in a path, got {os.fspath(path)!r}")
        return engine


@mutant("ENG-42")
class LinksAreNotFollowedToTheirPath(FileEngine):
    """A character that cannot be in a path is looked for in the path as it is given.

    Imitates a check of the argument alone, where the driver resolves links before it misreads.
    """

    capabilities: ClassVar[Capabilities] = replace(FileEngine.capabilities, refused_in_paths="?")

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        if "?" in os.fspath(path):
            raise InvalidArgumentError(f"? cannot be in a path, got {os.fspath(path)!r}")
        return super().open(path, options)
