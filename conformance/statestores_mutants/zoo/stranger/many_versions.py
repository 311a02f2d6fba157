"""Versioned stores that are right up to some number of versions of one key."""

from collections.abc import Iterator
from itertools import islice

from statestores.semantics.versioned.store import EngineVersionedStore
from statestores.spi import VersionedRecord
from statestores_mutants.registry import mutant

_MOST = 1 << 16


@mutant("VRS-10")
class HistoriesEndAtTwoBytes(EngineVersionedStore):
    """A history ends after 65,536 versions.

    Imitates versions of a key that are numbered in two bytes, or a limit that a page had once.
    """

    def history(
        self,
        key: bytes,
        first_ms: int | None = None,
        last_ms: int | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[VersionedRecord[bytes]]:
        return islice(super().history(key, first_ms, last_ms, reverse=reverse), _MOST)


@mutant("VRS-8", "VRS-9")
class LatestIsSoughtInTwoBytes(EngineVersionedStore):
    """The version of a time is sought among the latest 65,536 of its key.

    Imitates a binary search whose bounds are of two bytes.
    """

    def get(self, key: bytes, as_of_ms: int | None = None) -> VersionedRecord[bytes] | None:
        found = super().get(key, as_of_ms)
        if found is None or as_of_ms is None:
            return found
        later = islice(super().history(key, found.valid_from_ms, reverse=True), _MOST)
        return found if found in later else None
