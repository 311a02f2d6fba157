"""The rows that the workloads share: 100-byte values, one seed."""

import random
from functools import lru_cache
from itertools import accumulate

SEED = 20_261_120
VALUE_BYTES = 100
ZIPF_KEYS = 20_000
COMMIT_ROWS = 1_000

VALUE = bytes(range(VALUE_BYTES))


_KEPT = 4
"""Lists of keys that are not drawn again for each group."""


def distinct_keys(count: int) -> list[bytes]:
    """Return *count* keys of 16 bytes in random order."""
    return list(_shuffled_keys(count))


@lru_cache(maxsize=_KEPT)
def _shuffled_keys(count: int) -> tuple[bytes, ...]:
    keys = [b"key-%012d" % number for number in range(count)]
    random.Random(SEED).shuffle(keys)
    return tuple(keys)


def zipf_keys(count: int, *, keys: int = ZIPF_KEYS) -> list[bytes]:
    """Return *count* keys drawn from *keys*, the n-th one with a weight of 1/n."""
    names = distinct_keys(keys)
    weights = list(accumulate(1 / rank for rank in range(1, keys + 1)))
    return random.Random(SEED).choices(names, cum_weights=weights, k=count)


def drawn(keys: list[bytes], count: int) -> list[bytes]:
    """Return *count* of *keys*, drawn evenly."""
    return random.Random(SEED + 1).choices(keys, k=count)


def random_values(count: int) -> list[bytes]:
    """Return *count* values, half of each of which cannot be compressed."""
    chance = random.Random(SEED + 3)
    return [chance.randbytes(VALUE_BYTES // 2) * 2 for _ in range(count)]


def times(count: int, highest: int) -> list[int]:
    """Return *count* times from 0 to *highest*, drawn evenly."""
    chance = random.Random(SEED + 2)
    return [chance.randint(0, highest) for _ in range(count)]
