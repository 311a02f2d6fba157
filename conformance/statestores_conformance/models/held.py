"""Iterators that a machine keeps open over the steps that follow."""

from collections.abc import Sequence
from typing import Any

from statestores.errors import StoreClosedError
from statestores_conformance.scripts.script import Name, Script


class HeldIterators:
    """Iterators and what each has yet to give, whatever happens meanwhile."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._held: list[tuple[Name, list[Any]]] = []

    def __len__(self) -> int:
        return len(self._held)

    def add(self, iterator: Name, expected: Sequence[Any]) -> None:
        """Keep *iterator*, which must give *expected*."""
        self._held.append((iterator, list(expected)))

    def step(self, number: int, steps: int) -> None:
        """Go on with one of them; drop one that has come to its end."""
        place = number % len(self._held)
        iterator, expected = self._held[place]
        for _ in range(steps):
            self._script.gives(expected.pop(0) if expected else None, "next", iterator, None)
        if not expected:
            del self._held[place]

    def are_closed(self) -> None:
        """Check that each raises, now that its source is closed, and drop them all."""
        for iterator, _ in self._held:
            self._script.fails(StoreClosedError, "next", iterator, None)
        self._held.clear()
