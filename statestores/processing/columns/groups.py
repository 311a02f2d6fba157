"""Rows of a batch by key: which group each is in, and the last row of each group."""

from typing import Any

import numpy as np
import pyarrow as pa

from statestores.processing.columns.column import Numbers


class Groups:
    """The groups of a batch, in the order of the last rows of each.

    In that order their results come out: so what comes out is a part of what records give, in the
    same order (PRC-9).
    """

    __slots__ = ("codes", "count", "lasts")

    def __init__(self, codes: Numbers, count: int) -> None:
        """Group rows by *codes*, which are from 0 to below *count*; each of them occurs."""
        lasts = np.zeros(count, np.int64)
        lasts[codes] = np.arange(len(codes))  # of equal codes the last one stays
        is_last = np.zeros(len(codes), np.bool_)
        is_last[lasts] = True
        self.count = count
        self.codes: Numbers = (np.cumsum(is_last) - 1)[lasts][codes]
        self.lasts: Numbers = np.flatnonzero(is_last)

    @property
    def firsts(self) -> Numbers:
        """The first row of each group."""
        firsts = np.zeros(self.count, np.int64)
        firsts[self.codes[::-1]] = np.arange(len(self.codes))[::-1]
        return firsts

    @classmethod
    def of(cls, keys: pa.Array) -> "Groups":
        """Return the groups of equal *keys*, none of which is null."""
        found: Any = keys.dictionary_encode()
        return cls(found.indices.to_numpy().astype(np.int64), len(found.dictionary))

    @classmethod
    def of_both(cls, keys: pa.Array, numbers: Numbers) -> "Groups":
        """Return the groups of equal *keys* and *numbers*."""
        found: Any = keys.dictionary_encode()
        several, places = np.unique(numbers, return_inverse=True)
        pairs = found.indices.to_numpy().astype(np.int64) * len(several) + places
        present, codes = np.unique(pairs, return_inverse=True)
        return cls(codes.astype(np.int64), len(present))

    def greatest(self, values: Numbers, least: Numbers) -> Numbers:
        """Return the greatest value of each group, and of *least*, which has one for each."""
        found = least.copy()
        np.maximum.at(found, self.codes, values)
        return found
