"""Keys of any length in LMDB, whose keys end at 511 bytes, in exactly the order of bytes.

A key of up to `CHUNK_BYTES` is a row of the table `pairs`, as it is. A longer one is cut: behind
its first chunk stands a *link*, the chunk and a zero byte, whose value names a layer of the table
`tails`. The layer holds the rest of every key that begins with the chunk, in the same way: rows,
and links to further layers.

The order stays that of the keys. The row of a chunk that is itself a key comes directly before the
link, since a strict prefix sorts first; and no other row can come between them or equal the link,
since no row is as long as a link.

Invariants: every layer has a row or a link, and exactly one link leads to it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import lmdb

Transaction: TypeAlias = "lmdb.Transaction[bytes]"
Table: TypeAlias = "lmdb._Database"  # noqa: SLF001  # the driver has no other name for it

CHUNK_BYTES = 502
"""LMDB's 511 bytes, without the name of a layer and the end of a link. Part of the format."""

LAYER_BYTES = 8
"""A layer is named by a number, which is the beginning of each of its rows."""

TOP = b""
"""The layer of whole keys, in the table `pairs`."""

_END_OF_LINK = b"\0"


@dataclass(frozen=True, slots=True)
class Tables:
    """The two tables of an environment."""

    pairs: Table
    """Whole keys, and links for the longer ones."""

    tails: Table
    """What follows the links."""

    def of(self, layer: bytes) -> Table:
        """Return the table that *layer* is in."""
        return self.tails if layer else self.pairs


def row(layer: bytes, rest: bytes) -> bytes:
    """Return LMDB's key for *rest* in *layer*: of its row, or of the link on the way to it."""
    if len(rest) > CHUNK_BYTES:
        return layer + rest[:CHUNK_BYTES] + _END_OF_LINK
    return layer + rest


def find(transaction: Transaction, tables: Tables, key: bytes) -> bytes | None:
    """Return the value of *key*."""
    if not key:  # LMDB takes it for a mistake, and the contract for a key that is not there
        return None
    layer = TOP
    while len(key) > CHUNK_BYTES:
        below = transaction.get(row(layer, key), db=tables.of(layer))
        if below is None:
            return None
        layer, key = below, key[CHUNK_BYTES:]
    return transaction.get(layer + key, db=tables.of(layer))


def put(transaction: Transaction, tables: Tables, key: bytes, value: bytes) -> None:
    """Set *key* to *value*, adding the layers that are missing."""
    layer = TOP
    while len(key) > CHUNK_BYTES:
        link, table = row(layer, key), tables.of(layer)
        below = transaction.get(link, db=table)
        if below is None:
            below = _new_layer(transaction, tables, layer)
            transaction.put(link, below, db=table)
        layer, key = below, key[CHUNK_BYTES:]
    transaction.put(layer + key, value, db=tables.of(layer))


def delete(transaction: Transaction, tables: Tables, key: bytes) -> None:
    """Remove *key* if it is there, and the links to layers that it leaves empty."""
    layer = TOP
    links: list[tuple[bytes, Table, bytes]] = []
    while len(key) > CHUNK_BYTES:
        link, table = row(layer, key), tables.of(layer)
        below = transaction.get(link, db=table)
        if below is None:
            return
        links.append((link, table, below))
        layer, key = below, key[CHUNK_BYTES:]
    transaction.delete(layer + key, db=tables.of(layer))
    for link, table, below in reversed(links):
        if not _is_empty(transaction, tables, below):
            return
        transaction.delete(link, db=table)


def after(layer: bytes) -> bytes:
    """Return the name that follows *layer*."""
    return (int.from_bytes(layer, "big") + 1).to_bytes(LAYER_BYTES, "big")


def _new_layer(transaction: Transaction, tables: Tables, above: bytes) -> bytes:
    """Return a layer that is not in use. *above* may have been added just now, and be empty."""
    with transaction.cursor(db=tables.tails) as cursor:
        highest = cursor.key()[:LAYER_BYTES] if cursor.last() else TOP
    return after(max(highest, above))


def _is_empty(transaction: Transaction, tables: Tables, layer: bytes) -> bool:
    with transaction.cursor(db=tables.tails) as cursor:
        return not (cursor.set_range(layer) and cursor.key().startswith(layer))
