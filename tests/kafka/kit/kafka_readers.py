"""Threads that read a store all the time, each by another bound, and note what breaks it."""

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any, Self

import pytest
from kafka_answering import KEY, STORE

import statestores as ss
from statestores.errors import StateStoreError
from statestores.query import RoutedStores

_LAG = 4
_LOOKS = 6_000
_PAUSE_SECONDS = 0.005
"""Between two reads of a thread, answered or not: the instances work, too."""

BOUNDS: dict[
    str,
    tuple[Callable[[ss.TopicPartition, int], dict[str, Any]], Callable[[int], int]],
] = {
    "fresh": (lambda _place, _before: {"max_lag": 0}, lambda before: before),
    "copy": (
        lambda _place, _before: {"include_stale": True, "max_lag": 0},
        lambda before: before,
    ),
    "lag": (
        lambda _place, _before: {"include_stale": True, "max_lag": _LAG},
        lambda before: before - _LAG,
    ),
    "position": (
        lambda place, following: {
            "include_stale": True,
            "at_least": ss.Position({place: max(0, following - 1)}),
        },
        lambda before: before,
    ),
    "stale": (lambda _place, _before: {"include_stale": True}, lambda _: 0),
}


class Readers:
    """Read from beginning to end of a block; what no bound allows is in `broken`."""

    def __init__(self, queries: RoutedStores, place: ss.TopicPartition) -> None:
        """Read what comes from *place*."""
        self.first_offset = 0
        """The offset of the first number there."""
        self._queries, self._place = queries, place
        self._stop = Event()
        self.kept = 0
        """The last number that is known to be committed."""
        self.broken: list[str] = []
        self.answers: dict[str, int] = {}
        self.longest_s: dict[str, float] = {}
        """How long it took at most from an answer to the next one."""
        self.errors: dict[str, StateStoreError] = {}
        self._threads = [Thread(target=self._read, args=(name,)) for name in BOUNDS]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _read(self, name: str) -> None:
        bounds, least = BOUNDS[name]
        answered = time.monotonic()
        while not self._stop.is_set():
            before = self.kept  # committed before the read began
            try:
                found = self._queries.store(
                    STORE, **bounds(self._place, self.first_offset + before)
                ).get(KEY)
            except StateStoreError as error:
                self.errors[name] = error
                if not error.retryable:
                    self.broken.append(f"{name} raised {error!r}")
                self._stop.wait(_PAUSE_SECONDS)
                continue
            if (found or 0) < least(before):
                self.broken.append(f"{name} gave {found}, and {before} had been committed")
            now = time.monotonic()
            self.longest_s[name] = max(self.longest_s.get(name, 0.0), now - answered)
            answered = now
            self.answers[name] = self.answers.get(name, 0) + 1
            self._stop.wait(_PAUSE_SECONDS)

    def wait_for(self, *names: str) -> None:
        """Return when there is another answer of each of these, or of every kind."""
        self.answers = {}
        wanted = set(names or BOUNDS)
        self.errors = {}
        for _ in range(_LOOKS):
            if self.answers.keys() >= wanted:
                return
            self._stop.wait(0.01)
        pytest.fail(f"only {set(self.answers)} of {wanted} are answered: {self.errors}")
