"""The rows that both sides work on: drawn once, and written to a file for the other side."""

import random
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from statestores_benchmarks.data import SEED, VALUE_BYTES, distinct_keys

VERSIONS = 10
"""Versions and windows of a key."""

HOUR_MS = 3_600_000
BEGIN_MS = 1_700_000_000_000 - 1_700_000_000_000 % HOUR_MS
_VALUES = 1_000
_READS = 3
"""One read for so many rows."""


@dataclass(frozen=True)
class Rows:
    """What is put and asked for, in each work alike."""

    count: int
    """How many rows there are."""

    @cached_property
    def keys(self) -> list[bytes]:
        """A key of 16 bytes for each row."""
        return distinct_keys(self.count)

    @cached_property
    def values(self) -> list[bytes]:
        """A value of 100 bytes for each row; rows share a thousand of them."""
        chance = random.Random(SEED + 4)
        some = [chance.randbytes(VALUE_BYTES) for _ in range(_VALUES)]
        return [some[row % _VALUES] for row in range(self.count)]

    @property
    def few(self) -> int:
        """How many keys have versions or windows: with these, there are as many as rows."""
        return self.count // VERSIONS

    @property
    def reads(self) -> int:
        """How many reads there are of each sort."""
        return self.count // _READS

    @cached_property
    def picks(self) -> list[int]:
        """The rows that reads ask for."""
        return random.Random(SEED + 5).choices(range(self.count), k=self.reads)

    @cached_property
    def few_picks(self) -> list[int]:
        """The keys with versions that reads ask for."""
        return random.Random(SEED + 6).choices(range(self.few), k=self.reads)

    @cached_property
    def times(self) -> list[int]:
        """The times that reads ask for, in milliseconds after `BEGIN_MS`."""
        chance = random.Random(SEED + 7)
        return [chance.randrange(VERSIONS * HOUR_MS) for _ in range(self.reads)]

    def write(self, path: Path) -> None:
        """Write everything as the Java program reads it: big-endian, in this order."""
        some = self.values[:_VALUES]
        with path.open("wb") as file:
            file.write(struct.pack(">iii", self.count, len(some), self.reads))
            file.writelines(self.keys)
            file.writelines(some)
            file.write(struct.pack(f">{self.reads}i", *self.picks))
            file.write(struct.pack(f">{self.reads}i", *self.few_picks))
            file.write(struct.pack(f">{self.reads}q", *self.times))
