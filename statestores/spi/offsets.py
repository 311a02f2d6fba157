"""Where a record stands in a log: partitions, offsets, and the input position of a store."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Self

from statestores.errors import InvalidArgumentError, InvalidTypeError

_PARTITIONS = 1 << 32
"""More than any log has: Kafka's numbers have 31 bits."""


class TopicPartition(NamedTuple):
    """One partition of one log."""

    topic: str
    """The name of the topic or changelog; not empty."""

    partition: int
    """The partition's number, from 0 to 2^32 - 1."""


def offset_after(committed: int | None) -> int:
    """Return the offset that follows *committed*; 0 when nothing is committed."""
    return 0 if committed is None else committed + 1


class Position(Mapping[TopicPartition, int]):
    """The last input offset of each partition that a store's content reflects (KIP-535, COM-10).

    Immutable. A partition that is absent has contributed nothing.
    """

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Take a copy of *offsets*.

        Raises:
            InvalidTypeError: A key is not a `TopicPartition`, or an offset not an ``int``.
            InvalidArgumentError: An offset is negative.
        """
        if offsets is not None and not isinstance(offsets, Mapping):
            raise InvalidTypeError(
                f"offsets must be a mapping from TopicPartition to int, got {offsets!r}"
            )
        self._offsets = dict(offsets or {})
        for partition, offset in self._offsets.items():
            check_partition(partition)
            check_offset(partition, offset)

    def __getitem__(self, partition: TopicPartition) -> int:
        return self._offsets[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __repr__(self) -> str:
        return f"Position({self._offsets!r})"

    def __hash__(self) -> int:
        return hash(frozenset(self._offsets.items()))

    def merge(self, other: Mapping[TopicPartition, int]) -> Self:
        """Return the position with the higher offset of each partition; nothing goes backward."""
        merged = dict(self._offsets)
        for partition, offset in other.items():
            known = merged.get(partition)
            if known is None or offset > known:
                merged[partition] = offset
        if not isinstance(other, Position):
            return type(self)(merged)
        position = object.__new__(type(self))  # both have been looked at
        position._offsets = merged
        return position


def check_partition(partition: object) -> None:
    """Accept a well-formed `TopicPartition`.

    Raises:
        InvalidTypeError: It is something else.
        InvalidArgumentError: The topic is empty or not UTF-8, or the partition negative or above
            2^32 - 1: no store could write it down (LAY-4).
    """
    if not isinstance(partition, TopicPartition):
        raise InvalidTypeError(
            f"expected a statestores.TopicPartition, got {partition!r}; make one of topic and "
            "partition: a tuple, or another library's class, is none"
        )
    topic: object = partition[0]
    number: object = partition[1]
    if not isinstance(topic, str) or type(number) is not int:
        raise InvalidTypeError(f"a TopicPartition is a str and an int, got {partition!r}")
    if not topic or not 0 <= number < _PARTITIONS:
        raise InvalidArgumentError(
            f"a TopicPartition has a name and a number from 0 to 2**32 - 1, got {partition!r}"
        )
    if not topic.isascii():  # most are, and this is in the way of every commit
        _check_text(topic, partition)


def _check_text(topic: str, partition: object) -> None:
    """Accept a *topic* that can be written down, which is in UTF-8 (LAY-4).

    Raises:
        InvalidArgumentError: It has half of a surrogate pair, as a bad decoding leaves it.
    """
    try:
        topic.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"a topic is text that is UTF-8, got {partition!r}; look where the name was decoded"
        ) from error


def checked_partition(topic: str, number: int) -> TopicPartition:
    """Return the partition *number* of *topic*.

    Raises:
        InvalidTypeError, InvalidArgumentError: There can be no such partition.
    """
    partition = TopicPartition(topic, number)
    check_partition(partition)
    return partition


def check_offset(partition: TopicPartition, offset: object) -> None:
    """Accept an offset: an ``int`` from 0 up to the largest int64.

    Raises:
        InvalidTypeError: It is not an ``int``.
        InvalidArgumentError: It is out of bounds.
    """
    if type(offset) is not int:
        raise InvalidTypeError(f"the offset of {partition} must be an int, got {offset!r}")
    if not 0 <= offset < 1 << 63:
        raise InvalidArgumentError(
            f"the offset of {partition} must be from 0 to 2**63 - 1, got {offset!r}"
        )
