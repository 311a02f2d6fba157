"""What the protocol asks of an object store: requests as values, so that it has no I/O of its own.

A step of the protocol is a generator that yields a request and is sent the answer. `driver.run`
carries them out; the explorer of the tests does so in any order, and with every failure.
"""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar


class Create(NamedTuple):
    """Make an object if there is none. The answer is an `Outcome`."""

    name: str
    data: bytes


class Replace(NamedTuple):
    """Replace an object if it has the tag. The answer is an `Outcome`."""

    name: str
    data: bytes
    tag: str


class Read(NamedTuple):
    """Read an object. The answer is `Found`, `Unchanged` or ``None``."""

    name: str
    known_tag: str | None = None


class ReadMany(NamedTuple):
    """Read objects in no order. The answer is a list of `Found` or ``None``."""

    names: Sequence[str]


class ListNames(NamedTuple):
    """List names. The answer is a list of them."""

    prefix: str


class Delete(NamedTuple):
    """Delete an object, if it is there. The answer is ``None``."""

    name: str


Request: TypeAlias = Create | Replace | Read | ReadMany | ListNames | Delete

T = TypeVar("T")

# Each request has an answer of its own type, which no type of a generator expresses.
Steps: TypeAlias = Generator[Request, Any, T]
