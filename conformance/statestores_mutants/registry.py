"""The zoo's list of animals: a decorator puts a class on it."""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from typing import TypeAlias, TypeVar

from statestores.semantics.every_kind.engine_store import EngineStore
from statestores.spi import Engine
from statestores_memory import MemoryEngine
from statestores_mutants.file_engine import FileEngine

Subject: TypeAlias = type[Engine] | type[EngineStore[bytes, bytes]]
"""What is wrong: an engine, or a store that is put over a sound one."""

T = TypeVar("T", bound=Subject)

_ZOO = "statestores_mutants.zoo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One class that is wrong in one way."""

    name: str
    """The name of the class; it says what is wrong."""

    theme: str
    """The module of the zoo."""

    subject: Subject
    """The class itself."""

    expected: frozenset[str]
    """The requirements that it breaks: one of them has to be cited by the test that catches it."""

    raises: type[Exception] | None
    """What it raises from its own code on purpose; any other error there is a mistake of ours."""

    @property
    def wrong(self) -> str:
        """What it does wrong, in a sentence."""
        return self._paragraphs[0]

    @property
    def imitates(self) -> str:
        """Which mistake of the real world it is like."""
        return self._paragraphs[1]

    @property
    def engine(self) -> type[Engine]:
        """The engine that is opened for it."""
        return self.subject if issubclass(self.subject, Engine) else FileEngine

    @property
    def store(self) -> type[EngineStore[bytes, bytes]] | None:
        """The store that is put over the engine in the place of ours, if there is one."""
        return None if issubclass(self.subject, Engine) else self.subject

    @property
    def _paragraphs(self) -> list[str]:
        text = cleandoc(self.subject.__doc__ or "").split("\n\n")
        return [" ".join(paragraph.split()) for paragraph in text] + [""]


_mutants: dict[str, Mutant] = {}


def mutant(*expected: str, raises: type[Exception] | None = None) -> Callable[[T], T]:
    """Put the class on the list, with the requirements of which one has to be found broken.

    Its docstring has two paragraphs: what it does wrong, and what it imitates.
    """

    def register(subject: T) -> T:
        if subject.__name__ in _mutants:
            raise ValueError(f"there are two mutants called {subject.__name__!r}")
        _mutants[subject.__name__] = Mutant(
            name=subject.__name__,
            theme=subject.__module__.rpartition(".")[2],
            subject=subject,
            expected=frozenset(expected),
            raises=raises,
        )
        return subject

    return register


def all_mutants() -> dict[str, Mutant]:
    """Return every mutant by its name, theme by theme; a new module of the zoo needs no entry."""
    rooms = pkgutil.walk_packages(import_module(_ZOO).__path__, f"{_ZOO}.")
    for module in sorted(rooms, key=lambda module: module.name):
        import_module(module.name)
    return dict(_mutants)


def sound(subject: Subject) -> Mutant:
    """Return *subject* as if it were a mutant: nothing is wrong with it, and nothing expected."""
    return Mutant(
        name=subject.__name__, theme="sound", subject=subject, expected=frozenset(), raises=None
    )


def sound_bases() -> dict[str, Mutant]:
    """Return what the mutants are made of, to be passed by the suite on the same road."""
    return {subject.__name__: sound(subject) for subject in (FileEngine, MemoryEngine)}
