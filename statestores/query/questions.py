"""What is asked of another instance, beside the read itself."""

from dataclasses import dataclass, fields
from typing import Any, Protocol

from statestores.query.metadata.host import Host
from statestores.query.read_terms import ReadTerms
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import ReadOnlyStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(ReadTerms):
    """A store, and on which terms it is read."""

    specification: StoreSpecification[Any, Any]
    """What the store is, as the asking side knows it."""

    @classmethod
    def on(cls, terms: ReadTerms, specification: StoreSpecification[Any, Any]) -> "Question":
        """Return the question for the store of *specification*, on *terms*."""
        known = {each.name: getattr(terms, each.name) for each in fields(ReadTerms)}
        return cls(specification=specification, **known)

    @property
    def terms(self) -> dict[str, Any]:
        """The terms by their names."""
        return {each.name: getattr(self, each.name) for each in fields(ReadTerms)}


class RemoteStores(Protocol):
    """Stores of other instances, as if they were here. Any thread may use it."""

    def store(self, host: Host, question: Question, /) -> ReadOnlyStore:
        """Return the store of *question* at *host*, of bytes; nothing is asked yet.

        Its reads raise what the other instance raised, and `UnreachableInstanceError` when there
        is no answer. Its iterators have asked, and have an answer, when they are returned.
        """
