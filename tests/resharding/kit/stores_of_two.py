"""Stores of two partitions, to be resharded, and readers of what comes of them."""

import random
from pathlib import Path

from dictionary import SPECIFICATIONS, Written

from statestores.reading.partition_reader import PartitionReader
from statestores.state_root import StateRoot


def written_store(
    root: Path,
    kind: str,
    random_source: random.Random,
    *,
    backend: str = "sqlite",
    count: int = 150,
) -> Written:
    """Return a store of two partitions with random content."""
    specification = SPECIFICATIONS[kind]
    StateRoot.create(root).add_store(specification, partitions=2)
    written = Written(root, specification, backend)
    written.put(random_source, count)
    return written


def reader_of(root: Path, name: str, number: int) -> PartitionReader:
    """Return a reader of one partition of the store *name*."""
    state = StateRoot.open(root)
    return PartitionReader(state.partition(name, number), state.store(name).specification)
