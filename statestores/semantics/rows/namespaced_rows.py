"""The rows of a key-value store: a namespace byte in front of the key."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import chain
from typing import TypeVar, cast

from statestores.semantics.rows.commit_batch import RowBatch
from statestores.semantics.rows.layout import DATA, HISTORY, after_prefix
from statestores.spi.write_order import SortsItself, columns_by_key

T = TypeVar("T")


class NamespacedRows(RowBatch, SortsItself):
    r"""Pending rows as an engine has them, and rows of other namespaces: the batch of a commit.

    It is a view, and costs a batch half of what a dictionary does: engines only iterate over it.

    >>> batch = NamespacedRows({b"key": b"value"})
    >>> batch[b"\x01row"] = b"1"
    >>> list(batch.items())
    [(b'\x02key', b'value'), (b'\x01row', b'1')]
    """

    __slots__ = ("_others", "_pending")

    def __init__(self, pending: Mapping[bytes, bytes | None]) -> None:
        """Show *pending*, whose keys have no namespace, as they are whenever somebody looks."""
        self._pending = pending
        self._others: dict[bytes, bytes | None] = {}

    def __setitem__(self, row_key: bytes, row: bytes | None) -> None:
        """Add a row of another namespace."""
        self._others[row_key] = row

    def __getitem__(self, row_key: bytes) -> bytes | None:
        if row_key.startswith(DATA):
            return self._pending[row_key[len(DATA) :]]
        return self._others[row_key]

    def get(self, row_key: bytes, default: T | None = None) -> bytes | T | None:
        """Return the row of *row_key*; *default* where the batch says nothing of it."""
        if row_key.startswith(DATA):
            return self._pending.get(row_key[len(DATA) :], default)
        return self._others.get(row_key, default)

    @classmethod
    def joined(cls, batches: "Iterable[NamespacedRows]") -> "NamespacedRows":
        """Return a copy of the rows of *batches*, of each key that of the last one."""
        rows: dict[bytes, bytes | None] = {}
        joined = cls(rows)
        for batch in batches:
            pending, others = batch.parts()
            rows.update(pending)
            joined._others.update(others)
        return joined

    def parts(self) -> tuple[Mapping[bytes, bytes | None], Mapping[bytes, bytes | None]]:
        """Return the rows by their keys without the namespace, and those of other namespaces."""
        return self._pending, self._others

    def __iter__(self) -> Iterator[bytes]:
        return chain(map(DATA.__add__, self._pending), self._others)

    def __len__(self) -> int:
        return len(self._pending) + len(self._others)

    def rows(self) -> Iterator[bytes | None]:
        return chain(self._pending.values(), self._others.values())

    def columns_by_key(self) -> tuple[list[bytes], Iterable[bytes | None]]:
        keys, rows = columns_by_key(self._pending)  # as the rows: one byte is in front of each
        return [*map(DATA.__add__, keys), *self._others], chain(rows, self._others.values())


def key_bounds(first: bytes | None, last: bytes | None) -> tuple[bytes, bytes]:
    """Return the half-open bounds of the rows from *first* to *last*, both inclusive.

    The key right above *last* is *last* with a zero byte after it.
    """
    start = DATA if first is None else DATA + first
    stop = HISTORY if last is None else DATA + last + b"\x00"
    return start, stop


def prefix_bounds(prefix: bytes) -> tuple[bytes, bytes]:
    """Return the half-open bounds of the rows whose key begins with *prefix* (KVS-9)."""
    # The namespace byte is not 0xFF, so there is always a row above all of them.
    return DATA + prefix, cast("bytes", after_prefix(DATA + prefix))


def key_bounds_of(start: bytes, stop: bytes) -> tuple[bytes, bytes | None]:
    r"""Return the half-open bounds of the keys whose rows lie from *start* to *stop*.

    >>> key_bounds_of(*key_bounds(b"a", None)), key_bounds_of(*key_bounds(None, b"b"))
    ((b'a', None), (b'', b'b\x00'))
    """
    return start[1:], stop[1:] if stop.startswith(DATA) else None


def without_namespace(
    rows: Iterator[tuple[bytes, bytes]],
) -> Generator[tuple[bytes, bytes], None, None]:
    """Turn rows into pairs of key and value."""
    for key, value in rows:
        yield key[1:], value
