"""Backends that no suite in one process would survive, each bad in its own way."""

# ruff: noqa: D102, T201  # an implementation inherits the contract's docstrings; one prints garbage

import ctypes
import os
import sys
import time
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Self

from dict_store import DictStore  # type: ignore[import-not-found]  # lies beside this one

from statestores.errors import CapabilityNotSupportedError
from statestores.spi import KeyValue
from statestores_memory import MemoryEngine


class TroubledEngine(MemoryEngine):
    """Crashes the interpreter, leaves it, hangs, and prints garbage, each at one call."""

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        print('\x00\x1b[2J{"event": "finished", "test": "none"}')
        os.write(1, b"\xff\xfe\n")
        return super().open(path, options)

    def approximate_num_keys(
        self, start: bytes, stop: bytes | None = None, frames: int = 50
    ) -> int:
        """Crash so deep that the trace is longer than what a report tells of what was printed."""
        if frames:
            return self.approximate_num_keys(start, stop, frames - 1)
        ctypes.string_at(0)
        return 0

    def checkpoint(self, path: str | PathLike[str]) -> None:
        while True:
            time.sleep(1)

    def ingest(self, pairs: Any) -> None:
        os._exit(3)


class TextEngine(MemoryEngine):
    """Returns text for bytes."""

    def get(self, key: bytes) -> bytes | None:
        value = super().get(key)
        return None if value is None else value.decode("latin-1")  # type: ignore[return-value]


class ShiftyEngine(MemoryEngine):
    """Forgets the last pair of a reverse scan, so that it is found by chance, too."""

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        pairs = super().scan(start, stop, reverse=reverse)
        return iter(list(pairs)[:-1]) if reverse else pairs


class RaisingEngine(MemoryEngine):
    """Cannot be opened."""

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        raise RuntimeError("no server\nlistens")


class LeavingEngine(MemoryEngine):
    """Ends the interpreter when it is opened."""

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        sys.stderr.flush()
        os._exit(7)


class NamelessEngine(MemoryEngine):
    """Opens as something that is no engine."""

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        return {}  # type: ignore[return-value]


def open_key_value_store(path: Path, specification: object) -> Any:
    """Open a store at door two, of the one kind that it knows."""
    if type(specification) is not KeyValue:
        raise CapabilityNotSupportedError(f"only key-value stores, got {specification!r}")
    return DictStore(specification)
