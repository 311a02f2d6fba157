"""The order in which cases take turns: another one in each round, the same ones in each run.

Whoever follows a case finds the caches of the processor, its frequency and the memory of the
process as that case has left them. In one fixed order everybody has one predecessor in all rounds,
and what it leaves looks like a difference between cases.
"""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from statestores_benchmarks.data import SEED

T = TypeVar("T")


def turns(name: str, number: int, cases: Sequence[T]) -> list[T]:
    """Return *cases* in the order that round *number* of *name* has: 0 is the first that counts.

    Every second round turns the order of the one before it around, and each such pair of rounds is
    drawn anew, by the seed of all data and the name. So after an even number of rounds each case
    was as often before any other one as after it, and has been in the middle on average.
    """
    pair, is_second = divmod(number, 2)
    order = list(cases)
    Random(f"{SEED} {name} {pair}").shuffle(order)
    return order[::-1] if is_second else order
