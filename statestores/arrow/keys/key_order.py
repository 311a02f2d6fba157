"""The order of a column of keys, found by comparing numbers and not bytes.

Arrow sorts binary columns by calling a comparison for each pair of values. Keys of one store mostly
begin alike and differ within a few bytes, so the eight bytes after what all of them share, as one
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

_ROW_BITS = 32
"""Half of a word, for the number of a row; with more rows the slower sort is used."""


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
    if (words[1:] > words[:-1]).all():
        return KeyOrder(np.arange(len(keys)), np.ones(len(keys), np.bool_))
    order, differs = _sorted_words(words)
    if not are_exact and not differs.all():
        tied = ~(np.append(differs, values=True) & np.insert(differs, 0, values=True))
        places = np.flatnonzero(tied)
        order[places], differs_there = _sorted_bytes(keys, order[places])
        # Where two neighbours are both tied, only their bytes say whether they differ.
        both = np.diff(places) == 1
        differs[places[:-1][both]] |= differs_there[both]
    return KeyOrder(order, np.append(differs, values=True))


def _sorted_words(words: npt.NDArray[np.uint64]) -> tuple[Numbers, Flags]:
    """Return the rows sorted by *words*, and which of those words differ from the next one.

    Two sorts that are not stable, first by words and then by row where words are equal, take half
    the time of one that is: numpy has vector instructions for them.
    """
    rows: Numbers = np.argsort(words, kind="stable" if len(words) >> _ROW_BITS else "quicksort")
    words = words[rows]
    differs: Flags = words[1:] != words[:-1]
    if not len(words) >> _ROW_BITS and not differs.all():
        ranked = np.zeros(len(words), np.uint64)
        np.cumsum(differs, out=ranked[1:])
        ranked <<= np.uint64(_ROW_BITS)
        ranked |= rows.view(np.uint64)
        ranked.sort()
        ranked &= np.uint64((1 << _ROW_BITS) - 1)
        rows = ranked.view(np.int64)
    return rows, differs


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
    if shortest == longest:
        return _words_of_table(data[offsets[0] : offsets[-1]].reshape(len(keys), longest))
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
    return words, False  # a key that ends within the word looks like one that goes on with zeros


def _words_of_table(table: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint64], bool]:
    """Return the same for keys of one length, a row each."""
    length = table.shape[1]
    shared = 0
    while shared < length and (table[:, shared] == table[0, shared]).all():
        shared += 1
    used = table[:, shared : shared + _WORD_BYTES]
    words = np.zeros((len(table), _WORD_BYTES), np.uint8)
    words[:, : used.shape[1]] = used
    return words.view(">u8").ravel().astype(np.uint64), length <= shared + _WORD_BYTES


def _shared_bytes(data: npt.NDArray[np.uint8], starts: Numbers, shortest: int) -> int:
    """Return how many first bytes all keys have in common."""
    for place in range(shortest):
        column = data[starts + place]
        if (column != column[0]).any():
            return place
    return shortest
