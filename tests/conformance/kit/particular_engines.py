"""Engines that open with an option only, or return what looks like bytes."""

# ruff: noqa: D102  # an implementation inherits the contract's docstrings

from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any, ClassVar, Self

from statestores.errors import InvalidOptionError
from statestores_memory import MemoryEngine
from statestores_sqlite import SQLiteEngine

SECRET = {"secret": "sesame"}
"""What `GuardedEngine` has to be opened with."""


class GuardedEngine(SQLiteEngine):
    """Cannot be opened without its secret, as a server cannot without its address."""

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, object] | None = None) -> Self:
        given = dict(options or {})
        if given.pop("secret", None) != SECRET["secret"]:
            raise InvalidOptionError("option 'secret' is missing or wrong; expected 'sesame'")
        return super().open(path, given)


class LookAlikeEngine(MemoryEngine):
    """Returns another type for bytes, from one call."""

    call: ClassVar[str] = "none"
    convert: ClassVar[Callable[[bytes], Any]] = bytes

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._converted("get", super().get(key))
        return found

    def get_many(self, keys: Any) -> list[bytes | None]:
        return [self._converted("get_many", value) for value in super().get_many(keys)]

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        found = super().first(start, stop)
        return None if found is None else (self._converted("first", found[0]), found[1])

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        call = "scan in reverse" if reverse else "scan"
        for key, value in super().scan(start, stop, reverse=reverse):
            yield key, self._converted(call, value)

    def _converted(self, call: str, value: bytes | None) -> Any:
        return value if value is None or call != self.call else type(self).convert(value)
