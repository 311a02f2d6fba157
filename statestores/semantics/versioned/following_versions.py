"""The rows of a commit whose versions all follow what is stored, made when an engine takes them.

Most commits are like that: each key has one version, a value, which is above the stored latest. Of
these rows none is looked up, so they need no dictionary; and an engine that takes one after the
other leaves the memory of each to the next.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import add, lt
from typing import Self, cast

from statestores.semantics.every_kind.arguments import MAX_TIME_MS
from statestores.semantics.rows.commit_batch import ColumnBatch
from statestores.semantics.rows.layout import DATA, HISTORY
from statestores.semantics.versioned.rows import SUFFIX_BYTES, Latest, Waiting, pack_header
from statestores.spi.write_order import InWriteOrder


class FollowingVersions(ColumnBatch, InWriteOrder):
    """Columns of latest versions, of those that they supersede, and rows of other namespaces.

    Latest rows come first and superseded ones after them, both in the order of their keys.
    """

    __slots__ = (
        "_ended_keys",
        "_ended_starts",
        "_ended_values",
        "_ends",
        "_keys",
        "_starts",
        "_values",
        "floor_ms",
    )

    def __init__(
        self,
        latest: tuple[Sequence[bytes], Sequence[int], Sequence[bytes]],
        ended: tuple[Sequence[bytes], Sequence[int], Sequence[bytes]],
        ends_ms: Sequence[int],
    ) -> None:
        """Take keys, starts and values of the versions that are *latest*, and that have *ended*."""
        super().__init__()
        self._keys, self._starts, self._values = latest
        self._ended_keys, self._ended_starts, self._ended_values = ended
        self._ends = ends_ms
        self.floor_ms = min(ends_ms, default=MAX_TIME_MS)
        """The lowest end of a version that has ended."""

    @classmethod
    def of(
        cls,
        keys: Sequence[bytes],
        pending: Mapping[bytes, Waiting],
        stored: Sequence[Latest | None],
        horizon_ms: int,
    ) -> Self | None:
        """Return the rows of all that is *pending*, by *keys* in their order, if all are like that.

        *stored* has the latest version of each of them. What ends by *horizon_ms* is not like that.
        """
        waiting = list(map(pending.__getitem__, keys))
        if dict in set(map(type, waiting)):
            return None  # several versions of a key
        single = cast("list[tuple[int, bytes]]", waiting)
        starts, values = [start for start, _ in single], [value for _, value in single]
        ended_keys, ends, ended = keys, starts, stored
        if None in stored:
            ended_keys, ends, ended = (
                list(compress(keys, stored)),
                list(compress(starts, stored)),
                [version for version in stored if version is not None],
            )
        before = cast("Sequence[tuple[int, bytes]]", ended)
        began, superseded = [start for start, _ in before], [value for _, value in before]
        rows = cls((keys, starts, values), (ended_keys, began, superseded), ends)
        has_deletions = None in values or None in superseded
        if has_deletions or rows.floor_ms <= horizon_ms:
            return None
        if max(began, default=0) >= rows.floor_ms and not all(map(lt, began, ends)):
            return None
        return rows

    def _row_keys(self) -> tuple[Iterable[bytes], Iterable[bytes]]:
        """Return `data_key` of each latest version and `history_key` of each that has ended."""
        return (
            map(DATA.__add__, self._keys),
            _history_keys(self._ended_keys, self._ended_starts),
        )

    def _rows(self) -> tuple[Iterable[bytes], Iterable[bytes]]:
        """Return `latest_row` of each latest version and `history_row` of each that has ended."""
        return (
            _with_times(self._starts, self._values),
            _with_times(self._ends, self._ended_values),
        )

    def __iter__(self) -> Iterator[bytes]:
        return chain(*self._row_keys(), self._others)  # flat: a step less for each row

    def __len__(self) -> int:
        return len(self._keys) + len(self._ended_keys) + len(self._others)

    def rows(self) -> Iterator[bytes | None]:
        return chain(*self._rows(), self._others.values())


def _with_times(times_ms: Sequence[int], values: Sequence[bytes]) -> Iterable[bytes]:
    """Return *values*, each behind its time."""
    if len(set(times_ms)) == 1:  # as in most commits
        return map(pack_header(times_ms[0]).__add__, values)
    return map(add, map(pack_header, times_ms), values)


def _history_keys(keys: Sequence[bytes], starts_ms: Sequence[int]) -> Iterable[bytes]:
    """Return the row's key of each superseded version; `escape` is written out."""
    if b"\x00" in b"".join(keys):
        keys = [key.replace(b"\x00", b"\x00\xff") for key in keys]
    suffixes: Iterable[bytes]
    if len(set(starts_ms)) == 1:
        suffixes = repeat((MAX_TIME_MS - starts_ms[0]).to_bytes(SUFFIX_BYTES))
    else:
        suffixes = ((MAX_TIME_MS - start).to_bytes(SUFFIX_BYTES) for start in starts_ms)
    return map(b"".join, zip(repeat(HISTORY), keys, suffixes))
