"""The order of a column of keys, found by comparing numbers and not bytes.

Arrow sorts binary columns by calling a comparison for each pair of values. Keys of one store mostly
begin alike and differ within a few bytes, so the eight bytes behind what all of them share, as one
number each, tell most of them apart; only those that are equal there are compared as bytes.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_WORD_BYTES = 8


class KeyOrder(NamedTuple):
    """How the rows of a column of keys are sorted."""

    rows: Numbers
    """The rows in the order of their keys' bytes, those with equal keys in their own order."""

    is_last: Flags
    """For each of `rows`, whether the key after it is another one."""


def key_order(keys: pa.Array) -> KeyOrder:
    """Return the order of *keys*, a column of type binary or large binary without nulls."""
    if not len(keys):
        return KeyOrder(np.empty(0, np.int64), np.empty(0, np.bool_))
    words, are_exact = _words(keys)
    order: Numbers = np.argsort(words, kind="stable")
    words = words[order]
    differs: Flags = words[1:] != words[:-1]
    if not are_exact and not differs.all():
        tied = ~(np.append(differs, values=True) & np.insert(differs, 0, values=True))
        places = np.flatnonzero(tied)
        order[places], differs_there = _sorted_bytes(keys, order[places])
        # Where two neighbours are both tied, only their bytes say whether they differ.
        both = np.diff(places) == 1
        differs[places[:-1][both]] |= differs_there[both]
    return KeyOrder(order, np.append(differs, values=True))


def _sorted_bytes(keys: pa.Array, rows: Numbers) -> tuple[Numbers, Flags]:
    """Return *rows* sorted by their keys, and which of them differ from the next one."""
    chosen = keys.take(pa.array(rows))
    encoded = chosen.dictionary_encode()
    dictionary_order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank_of = np.empty(len(dictionary_order), np.int64)
    rank_of[dictionary_order] = np.arange(len(dictionary_order))
    ranks = rank_of[encoded.indices.to_numpy()]
    order = np.argsort(ranks, kind="stable")
    ranks = ranks[order]
    return rows[order], ranks[1:] != ranks[:-1]


def _words(keys: pa.Array) -> tuple[npt.NDArray[np.uint64], bool]:
    """Return a number of each key that ascends as its bytes do, and whether it says everything."""
    width = np.int64 if pa.types.is_large_binary(keys.type) else np.int32
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, width)[keys.offset : keys.offset + len(keys) + 1]
    starts, stops = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    lengths = stops - starts
    if not lengths.any():
        return np.zeros(len(keys), np.uint64), True
    data = np.frombuffer(data_buffer, np.uint8)
    shortest, longest = int(lengths.min()), int(lengths.max())
    shared = _shared_bytes(data, starts, shortest)
    starts += shared
    words = np.zeros(len(keys), np.uint64)
    highest = len(data) - 1
    for place in range(_WORD_BYTES):
        words <<= np.uint64(8)
        if place + shared >= longest:
            continue
        at = starts + place
        found = data[np.minimum(at, highest)]
        if place + shared >= shortest:
            found = np.where(at < stops, found, np.uint8(0))
        words |= found
    # A key that ends within the word looks like one that goes on with zeros.
    return words, shortest == longest and longest <= shared + _WORD_BYTES


def _shared_bytes(data: npt.NDArray[np.uint8], starts: Numbers, shortest: int) -> int:
    """Return how many first bytes all keys have in common."""
    for place in range(shortest):
        column = data[starts + place]
        if (column != column[0]).any():
            return place
    return shortest
