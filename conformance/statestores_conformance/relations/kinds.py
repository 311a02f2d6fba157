"""The seam between relations and kinds of stores: how one is written, and all its reads."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple

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
    """A read that iterates, and reads that together must give the same."""

    whole: Read
    parts: tuple[Read, ...]
    union: str = "merged"
    """The helper of scripts that puts the parts together (see `reproduction`)."""


class Alike(NamedTuple):
    """A read, and another one whose answer must be the same, directly or through a helper."""

    read: Read
    other: Read
    helper: str | None = None
    arguments: tuple[Any, ...] = ()
    """What else the helper is given, after the answer."""


class Kind(ABC):
    """One kind of store, as the relations see it.

    Reads are fixed lists rather than drawn, so that two stores can be asked the same at any time.
    The first argument of a write is its key; every other bytes of a read are keys as well, and
    every ``int`` of either is a time.
    """

    without_keys: ClassVar[frozenset[str]] = frozenset()
    """The iterations that give rows without their key, since all are of one key."""

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
        """Return bulk writes that must do what *writes* do one by one."""

    @abstractmethod
    def reads(self) -> Iterator[Read]:
        """Yield reads of every form: what they give is all that can be known about the content."""

    @abstractmethod
    def iterations(self) -> Iterator[Read]:
        """Yield the reads that take ``reverse=True``."""

    @abstractmethod
    def splits(self) -> Iterator[Split]:
        """Yield ranges, and parts that make up each of them."""

    @abstractmethod
    def columns(self) -> Iterator[Split]:
        """Yield reads of many keys in one call, and reads of each."""

    @abstractmethod
    def same_now(self, stream_time_ms: int | None) -> Iterator[Alike]:
        """Yield reads that must give the same at the present *stream_time_ms*."""

    @abstractmethod
    def points(self) -> Iterator[Alike]:
        """Yield reads of one row each, and iterations that find it."""

    @abstractmethod
    def void(self, write: Write, specification: Any) -> Write | None:
        """Return a write that *write*, coming next, makes void; ``None`` when there is none."""

    @abstractmethod
    def lasting(self, specification: Any) -> StoreSpecification[Any, Any]:
        """Return *specification*, but with a retention that no time of a workload reaches."""

    @abstractmethod
    def compacted(self, log: Sequence[Changes], specification: Any) -> Changes:
        """Return the changes of *log* that later ones do not make void, in their order."""


class TimedKind(Kind):
    """A kind of store whose rows have times, and expire by them."""

    @abstractmethod
    def retention_ms(self, specification: Any) -> int:
        """Return how far stream time must pass a row for it to expire."""

    @abstractmethod
    def recent(self, horizon_ms: int) -> Iterator[Alike]:
        """Yield what a store shows while its horizon is *horizon_ms*, and how another shows it.

        The other has had the same writes, and has kept everything.
        """

    def judged(self, write: Write) -> Write | None:
        """Return *write* such that its answer says whether it was refused as late.

        ``None`` when what it does depends on more than its time.
        """
        return write
