"""State roots in the memory of this process, whose stores are resharded."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import statestores as ss
from statestores.state_root import StateRoot

T = TypeVar("T")
INPUT = ss.TopicPartition("input", 0)
_numbers = itertools.count()


def new_url() -> str:
    """Return a root that nobody else uses."""
    return f"memory://reshards/{next(_numbers)}"


def owner(root: StateRoot, number: int, directory: Path, backend: str = "memory") -> Any:
    """Take partition *number*."""
    return ss.open_logged_store(root, "kept", number, backend=backend, directory=directory)


def put(root: StateRoot, directory: Path, *keys: bytes) -> None:
    """Commit each of *keys* to partition 0, where ``a`` and ``c`` belong if there are two."""
    with owner(root, 0, directory) as opened:
        for key in keys:
            opened.store.put(key, b"v")
            opened.commit({INPUT: 1})


def names_in(root: StateRoot, prefix: str) -> list[str]:
    """Return what lies below *prefix*."""
    assert root.storage is not None
    return [each.name for each in root.storage.list(prefix)]


def done_twice(work: Sequence[Callable[[], T]]) -> Iterator[T]:
    """Do each piece of *work* as tasks may: an attempt is done and lost, and another one comes."""
    for each in work:
        each()
        yield each()
