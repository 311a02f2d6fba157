"""Walks over the pairs of one transaction in key order, up and down through the layers.

A walk touches the driver at each of its steps: whoever takes one holds the gate of the database.
"""

from collections.abc import Iterator

from statestores_lmdb.layers import CHUNK_BYTES, TOP, Tables, Transaction, after, row


def ascending(
    transaction: Transaction, tables: Tables, start: bytes, stop: bytes | None
) -> Iterator[tuple[bytes, bytes]]:
    """Walk up over the pairs with ``start <= key < stop``."""
    for pair in _up(transaction, tables, TOP, b"", start):
        if stop is not None and pair[0] >= stop:
            return
        yield pair


def descending(
    transaction: Transaction, tables: Tables, start: bytes, stop: bytes | None
) -> Iterator[tuple[bytes, bytes]]:
    """Walk down over the same pairs."""
    for pair in _down(transaction, tables, TOP, b"", stop):
        if pair[0] < start:
            return
        yield pair


def _up(
    transaction: Transaction, tables: Tables, layer: bytes, head: bytes, start: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Walk up through *layer*, whose keys all begin with *head*, from the rest *start* on."""
    skipped = len(layer)
    origin = row(layer, start)
    with transaction.cursor(db=tables.of(layer)) as cursor:
        if not cursor.set_range(origin):
            return
        for key, value in cursor.iternext():
            if not key.startswith(layer):
                return
            if len(key) - skipped > CHUNK_BYTES:
                chunk = key[skipped : skipped + CHUNK_BYTES]
                # Only the link on the way to *start* has something below that comes before it.
                rest = start[CHUNK_BYTES:] if key == origin else b""
                yield from _up(transaction, tables, value, head + chunk, rest)
            else:
                yield (head + key[skipped:] if skipped else key), value


def _down(
    transaction: Transaction,
    tables: Tables,
    layer: bytes,
    head: bytes,
    stop: bytes | None,
) -> Iterator[tuple[bytes, bytes]]:
    """Walk down through *layer*, from just below the rest *stop*, or from its end."""
    skipped = len(layer)
    with transaction.cursor(db=tables.of(layer)) as cursor:
        if stop is not None:
            origin = row(layer, stop)
            behind = cursor.set_range(origin)
            if behind and len(stop) > CHUNK_BYTES and cursor.key() == origin:
                chunk, rest = stop[:CHUNK_BYTES], stop[CHUNK_BYTES:]
                yield from _down(transaction, tables, cursor.value(), head + chunk, rest)
        else:
            behind = bool(layer) and cursor.set_range(after(layer))
        if not (cursor.prev() if behind else cursor.last()):
            return
        for key, value in cursor.iterprev():
            if not key.startswith(layer):
                return
            if len(key) - skipped > CHUNK_BYTES:
                chunk = key[skipped : skipped + CHUNK_BYTES]
                yield from _down(transaction, tables, value, head + chunk, None)
            else:
                yield (head + key[skipped:] if skipped else key), value
