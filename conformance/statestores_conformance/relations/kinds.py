"""The seam between relations and kinds of stores: how one is written, and all it can be asked."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from hypothesis.strategies import SearchStrategy

from statestores.spi import Changes, StoreSpecification

KEYS = [b"", b"a", b"a\x00", b"a\x00\xff", b"a\xff", b"ab", b"b", b"\xff"]
"""Few, so that they meet; prefixes of each other, so that they can be confused."""

VALUES = [b"", b"\x00", b"1", b"2", b"3", b"v" * 300]
"""Values that an encoding may confuse with absence or with each other."""


class Write(NamedTuple):
    """One call that writes."""

    method: str
    arguments: tuple[Any, ...]


class Form(Enum):
    """What a read gives."""

    VALUE = "value"
    ITERATOR = "iterator"
    ATTRIBUTE = "attribute"


class Read(NamedTuple):
    """One call that reads, or one attribute."""

    method: str
    arguments: tuple[Any, ...] = ()
    form: Form = Form.VALUE


class Split(NamedTuple):
    """A read that iterates, and reads that together have to give the same."""

    whole: Read
    parts: tuple[Read, ...]


class Kind(ABC):
    """One kind of store, as the relations see it.

    Reads are fixed lists rather than drawn, so that two stores can be asked the same at any time.
    """

    @abstractmethod
    def probe(self) -> StoreSpecification[Any, Any]:
        """Return any specification of the kind."""

    @abstractmethod
    def specifications(self) -> SearchStrategy[StoreSpecification[Any, Any]]:
        """Draw the specification of a store."""

    @abstractmethod
    def writes(self) -> SearchStrategy[Write]:
        """Draw one write."""

    @abstractmethod
    def as_columns(self, writes: Sequence[Write]) -> list[Write]:
        """Return bulk writes that have to do what *writes* do one by one."""

    @abstractmethod
    def reads(self) -> Iterator[Read]:
        """Yield reads of every form: what they give is all that can be known of the content."""

    @abstractmethod
    def iterations(self) -> Iterator[Read]:
        """Yield the reads that take ``reverse=True``."""

    @abstractmethod
    def splits(self) -> Iterator[Split]:
        """Yield ranges, and parts that make up each of them."""

    @abstractmethod
    def columns(self) -> Iterator[Split]:
        """Yield reads of many keys at once, and reads of each."""

    @abstractmethod
    def same_now(self, stream_time_ms: int | None) -> Iterator[tuple[Read, Read]]:
        """Yield pairs of reads that have to give the same at the present *stream_time_ms*."""

    @abstractmethod
    def compacted(self, log: Sequence[Changes], specification: Any) -> Changes:
        """Return the changes of *log* that later ones do not make void, in their order."""
