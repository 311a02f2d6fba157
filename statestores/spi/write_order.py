"""The order in which engines of sorted rows take a large batch best: that of the keys.

A table of recent writes finds the place of each key from that of the one before, if it comes after
it. From some hundred keys on that is worth the sorting; of keys that come in order nothing is
gained. The result of a batch does not depend on its order: each key is in it once.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from itertools import pairwise

from statestores.spi.engine import WriteBatch

ORDERED_FROM = 500
"""Fewer keys lie too far apart in the table
(docs/decisions/0221-a-commit-of-some-hundred-rows-is-sorted.md)."""

_LOOKED_AT = 16


class InWriteOrder(Mapping[bytes, bytes | None]):
    """A batch whose keys come in their order, but for a few: they are taken as they come.

    Its rows may be made while an engine takes them, and each leaves its memory to the next.
    """

    __slots__ = ()


class SortsItself(Mapping[bytes, bytes | None]):
    """A batch that puts its keys in order with less than a dictionary of all of them."""

    __slots__ = ()

    @abstractmethod
    def columns_by_key(self) -> tuple[list[bytes], Iterable[bytes | None]]:
        """Return keys, in their order but for a few, and what the batch has for each."""


def in_write_order(batch: WriteBatch) -> Iterable[tuple[bytes, bytes | None]]:
    """Return the changes of *batch*: by their keys if it is large, as they come if they are few."""
    return zip(*columns_in_write_order(batch), strict=True)


def columns_in_write_order(
    batch: WriteBatch,
) -> tuple[Iterable[bytes], Iterable[bytes | None]]:
    """Return the keys and the values of `in_write_order`, each by itself."""
    if len(batch) < ORDERED_FROM or isinstance(batch, InWriteOrder):
        return batch, batch.values()
    if isinstance(batch, SortsItself):
        return batch.columns_by_key()
    if type(batch) is dict:
        return columns_by_key(batch)
    keys = list(batch)  # once: a batch may make each of them anew
    if _seem_in_order(keys):
        return keys, batch.values()
    # A batch that is a view finds each key by a step of Python, and a dictionary without one.
    return columns_by_key(dict(zip(keys, batch.values(), strict=True)))


def columns_by_key(
    rows: Mapping[bytes, bytes | None],
) -> tuple[list[bytes], Iterable[bytes | None]]:
    """Return the keys of many *rows* in their order, if they seem to be in none, and their rows.

    Requires: to look up a key takes no step of Python.
    """
    keys = list(rows)
    if _seem_in_order(keys):
        return keys, rows.values()
    keys.sort()
    return keys, map(rows.__getitem__, keys)


def _seem_in_order(keys: list[bytes]) -> bool:
    """Return whether a few of many *keys*, here and there, come before those that follow them.

    Both the next one and the next that is looked at: where each second key is new, as of sessions
    that are extended, every other key comes before its neighbour in any order. Not the end: there
    lie the few rows that a commit adds to sorted ones. To be wrong costs time and nothing else.
    """
    step = max(1, len(keys) // _LOOKED_AT)
    looked_at = [keys[at : at + 2] for at in range(0, len(keys) - step, step)]
    return all(first < last for first, last in looked_at) and all(
        before[0] < after[0] for before, after in pairwise(looked_at)
    )
