"""Topologies of several parts and steps, and drivers that die between them."""

import random

from chain_without_spark import Given

import statestores as ss
from statestores.processing import Record, Topic, Topology

WORDS = ["to", "be", "or", "not", "to", "be", "that", "is", "the", "question"]


def three_parts() -> Topology:
    """Words, their counts, and how many words there are of each count: each changes the next."""
    text = Topology("text")
    lines = text.stream(Topic("lines", value=ss.utf8))
    words = lines.flat_map(lambda record: record.value.split())
    counts = words.group_by("value", key=ss.utf8).count(
        ss.KeyValue("counts", key=ss.utf8, value=ss.int64)
    )
    counts.to(Topic("word-counts", key=ss.utf8, value=ss.int64))
    counts.group_by("value", key_serde=ss.int64).count(
        ss.KeyValue("of-counts", key=ss.int64, value=ss.int64)
    ).to(Topic("counts-of-counts", key=ss.int64, value=ss.int64))
    return text


def micro_batches(rng: random.Random, count: int) -> list[Given]:
    """Return lines of words, some times late."""
    return [
        [
            (
                "lines",
                Record(None, " ".join(rng.choices(WORDS, k=3)).encode(), rng.randrange(100)),
            )
            for _ in range(rng.randrange(1, 5))
        ]
        for _ in range(count)
    ]


def counted(batches: list[Given]) -> tuple[dict[str, int], dict[int, int]]:
    """Return how often each word is in the lines, and how many words are there so often."""
    words: dict[str, int] = {}
    for given in batches:
        for _, record in given:
            for word in (record.value or b"").decode().split():
                words[word] = words.get(word, 0) + 1
    numbers = dict.fromkeys(words.values(), 0)
    for count in words.values():
        numbers[count] += 1
    return words, numbers


class DriverDiedError(Exception):
    """What stands for a kill at a failpoint."""


def die() -> None:
    """End what is going on, wherever that is."""
    raise DriverDiedError


def countdown() -> Topology:
    """A record with the value n comes n times more, each in a step of its own; all are counted."""
    topology = Topology("countdown")
    loop = Topic("loop", key=ss.utf8, value=ss.int64)
    both = topology.stream(Topic("in", key=ss.utf8, value=ss.int64)).merge(topology.stream(loop))
    both.filter(lambda record: record.value > 0).map_values(lambda value: value - 1).to(loop)
    both.group_by_key().count(ss.KeyValue("counts", key=ss.utf8, value=ss.int64))
    return topology
