"""Engines that store keys in another form, which is not one to one or sorts differently."""

from collections.abc import Iterator, Mapping, Sequence

from statestores.spi import Durability, EngineSnapshot, WriteBatch
from statestores_memory.content import Content
from statestores_memory.snapshot import MemorySnapshot
from statestores_mutants.file_engine import Batch, FileEngine, checked
from statestores_mutants.registry import mutant

Pair = tuple[bytes, bytes]

_TURN_SIGN = bytes(byte ^ 0x80 for byte in range(256))


class EncodingEngine(FileEngine):
    """A sound engine whose keys go through `encode` on the way in and `decode` on the way out."""

    def encode(self, key: bytes) -> bytes:
        """Return the stored form of *key*."""
        return key

    def decode(self, key: bytes) -> bytes:
        """Return the key of a stored form."""
        return key

    def get(self, key: bytes) -> bytes | None:
        return super().get(self.encode(key))

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return super().get_many([self.encode(key) for key in keys])

    def first(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        return self.decoded(super().first(*self.encoded(start, stop)))

    def last(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        return self.decoded(super().last(*self.encoded(start, stop)))

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        rows = super().scan(*self.encoded(start, stop), reverse=reverse)
        return ((self.decode(key), value) for key, value in rows)

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        changes: Batch = {self.encode(key): value for key, value in checked(batch).items()}
        super().apply(changes, durability)

    def snapshot(self) -> EngineSnapshot:
        with self._lock:
            snapshot = EncodingSnapshot(self, self._readable())
            self._sharers.add(snapshot)
            return snapshot

    def approximate_num_keys(self, start: bytes, stop: bytes | None = None) -> int:
        return super().approximate_num_keys(*self.encoded(start, stop))

    def encoded(self, start: bytes, stop: bytes | None) -> tuple[bytes, bytes | None]:
        """Return the bounds of a range as they are stored; there is nothing below ``b""``."""
        return self.encode(start) if start else start, self.encode(stop) if stop else stop

    def decoded(self, pair: Pair | None) -> Pair | None:
        """Return a stored pair as it is given out."""
        return None if pair is None else (self.decode(pair[0]), pair[1])


class EncodingSnapshot(MemorySnapshot):
    """A snapshot of an `EncodingEngine`."""

    def __init__(self, engine: EncodingEngine, content: Content) -> None:
        super().__init__(engine, content)
        self._codec = engine

    def get(self, key: bytes) -> bytes | None:
        return super().get(self._codec.encode(key))

    def first(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        return self._codec.decoded(super().first(*self._codec.encoded(start, stop)))

    def last(self, start: bytes, stop: bytes | None = None) -> Pair | None:
        return self._codec.decoded(super().last(*self._codec.encoded(start, stop)))

    def scan(
        self, start: bytes, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Pair]:
        rows = super().scan(*self._codec.encoded(start, stop), reverse=reverse)
        return ((self._codec.decode(key), value) for key, value in rows)


@mutant("ENG-4")
class SignedByteOrder(EncodingEngine):
    """Bytes from 80 to ff sort below 00.

    Imitates a comparator in a language whose bytes are signed, such as `byte[]` in Java.
    """

    def encode(self, key: bytes) -> bytes:
        return key.translate(_TURN_SIGN)

    def decode(self, key: bytes) -> bytes:
        return key.translate(_TURN_SIGN)


@mutant("ENG-4")
class ShorterKeysFirst(EncodingEngine):
    """Keys sort by their length first.

    Imitates a length prefix in front of a key, as varint and Avro encodings put it.
    """

    def encode(self, key: bytes) -> bytes:
        return len(key).to_bytes(4, "big") + key

    def decode(self, key: bytes) -> bytes:
        return key[4:]


@mutant("ENG-4")
class KeysEndAtZero(EncodingEngine):
    """A key ends at its first zero byte after another byte.

    Imitates a C string.
    """

    def encode(self, key: bytes) -> bytes:
        return key[:1] + key[1:].partition(b"\x00")[0]


@mutant("ENG-4")
class TrailingZerosAreLost(EncodingEngine):
    """Zero bytes at the end of a key are cut off.

    Imitates SQL's BINARY(n) columns, which pad with zeros and strip them again.
    """

    def encode(self, key: bytes) -> bytes:
        return key[:1] + key[1:].rstrip(b"\x00")


@mutant("ENG-4")
class KeysIgnoreCase(EncodingEngine):
    """Keys that differ in upper and lower case only are one key.

    Imitates a column with a collation such as NOCASE or utf8_general_ci.
    """

    def encode(self, key: bytes) -> bytes:
        return key.lower()


@mutant("ENG-4", "ENG-25")
class KeysAreText(EncodingEngine):
    """Keys go through UTF-8 text; what is no UTF-8 becomes a replacement character.

    Imitates `key.decode(errors="replace")`: robust, and all bad keys become one.
    """

    def encode(self, key: bytes) -> bytes:
        return key.decode("utf-8", "replace").encode()


@mutant("ENG-25", "ENG-4")
class KeysEndAtTheIndexLimit(EncodingEngine):
    """A key is cut off after 3,072 bytes.

    Imitates InnoDB's longest index prefix.
    """

    def encode(self, key: bytes) -> bytes:
        return key[:3_072]


@mutant("ENG-25", "ENG-16")
class KeysEndBelow64KiB(EncodingEngine):
    """A key is cut off after 65,535 bytes.

    Imitates a length of 16 bits, as Kafka Streams' own on-disk formats have many.
    """

    def encode(self, key: bytes) -> bytes:
        return key[:65_535]


@mutant("ENG-25", "ENG-2")
class ValuesEndAt64KiB(FileEngine):
    """A value is cut off after 65,535 bytes.

    Imitates MySQL's BLOB without strict mode.
    """

    def apply(self, batch: Mapping[bytes, bytes | None], durability: Durability) -> None:
        changes = checked(batch)
        super().apply(
            {k: None if v is None else v[:65_535] for k, v in changes.items()}, durability
        )


@mutant("ENG-25", "ENG-2", "ENG-16")
class ValuesEndAt8MiB(FileEngine):
    """A value is cut off after 8 MiB.

    Imitates a fixed read buffer.
    """

    def apply(self, batch: Mapping[bytes, bytes | None], durability: Durability) -> None:
        changes = checked(batch)
        super().apply(
            {k: None if v is None else v[: 8 << 20] for k, v in changes.items()}, durability
        )
