"""Counts of words with their position, as the tests of object stores put and commit them."""

import statestores as ss
from statestores.logged_store import LoggedStore

INPUT = ss.TopicPartition("words", 0)


Counts = LoggedStore[ss.KeyValueStore[str, int]]


def put(counts: Counts, *rows: tuple[str, int]) -> None:
    """Put *rows*, and commit each with its number as the position."""
    for key, value in rows:
        counts.store.put(key, value)
        counts.commit({INPUT: value})
