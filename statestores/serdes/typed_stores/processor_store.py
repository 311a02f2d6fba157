"""The store of a processor: everything of its kind except what its runtime decides (KIP-1035).

Stores of a task commit together, and with the position of the input. A processor that commits one
of them, or rolls it back, tears that apart. So those verbs are refused here, by name. Everything
else is the whole store's own bound method, taken once: a call costs what it costs there.
"""

from collections.abc import Callable
from functools import cache
from inspect import getattr_static
from operator import attrgetter
from typing import Any, NoReturn, TypeVar, cast

from statestores.errors import CapabilityNotSupportedError
from statestores.spi.foreign_names import FOREIGN_NAMES
from statestores.spi.stores.store import StateStore

S = TypeVar("S")

OWNER_VERBS = (
    "commit",
    "commit_rows",
    "rollback",
    "truncate",
    "clear_offsets",
    "advance_position",
    "replace_position",
    "attach_journal",
    "close",
)
"""What belongs to the runtime in a store of any kind."""

_SPI = StateStore.__module__.rpartition(".")[0]


class ProcessorStore:
    """What the stores of processors have in common. Made by `for_processors`."""

    __slots__ = ()

    whole_store: Any
    """The runtime's: whoever reads and writes whole columns goes on from here."""

    who_commits: str
    """In words, for the error."""

    def __repr__(self) -> str:
        return repr(self.whole_store)

    def refuse(self, verb: str) -> NoReturn:
        """Raise an error that says that *verb* is not a processor's.

        Raises:
            CapabilityNotSupportedError: Always.
        """
        raise CapabilityNotSupportedError(
            f"{verb!r} of the store {self.whole_store.name!r} is not a processor's: "
            f"{self.who_commits}"
        )


def for_processors(store: S, who_commits: str) -> S:
    """Return *store* for a processor: of the same kind, without what its runtime decides.

    *who_commits* ends the error of the verbs that are refused. Closing *store* closes what is
    returned; recording the calls of *store* must begin before that.
    """
    whole = cast("StateStore", store)
    opened = _class_for(type(whole))()
    opened.whole_store = whole
    opened.who_commits = who_commits
    for name in opened.forwarded:
        setattr(opened, name, getattr(whole, name))
    return cast("S", opened)


@cache
def _class_for(store: type[StateStore]) -> Callable[[], Any]:
    """Return the class of processors' stores for the kind that *store* implements."""
    kind = next(each for each in store.__mro__ if each.__module__.startswith(_SPI))
    public = [name for name in dir(kind) if name[0] != "_" and name not in FOREIGN_NAMES]
    properties = [name for name in public if isinstance(getattr_static(kind, name), property)]
    forwarded = tuple(name for name in public if name not in {*properties, *OWNER_VERBS})
    namespace: dict[str, object] = {
        "__slots__": (*forwarded, "whole_store", "who_commits"),
        "__doc__": f"A {kind.__name__} whose commits are its runtime's.",
        "__module__": __name__,
        "forwarded": forwarded,
        **{verb: _refusing(verb) for verb in OWNER_VERBS},
        **{name: property(attrgetter(f"whole_store.{name}")) for name in properties},
    }
    return type(kind)(f"Processor{kind.__name__}", (ProcessorStore, kind), namespace)


def _refusing(verb: str) -> Callable[..., NoReturn]:
    def refuse(self: ProcessorStore, *_: object, **__: object) -> NoReturn:
        self.refuse(verb)

    refuse.__name__ = verb
    refuse.__doc__ = "Refuse: this is the runtime's."
    return refuse
