"""The position that a query asks for at least, judged for each partition on its own (KIP-796)."""

from collections.abc import Mapping
from typing import TypeAlias, cast

from statestores.errors import InvalidArgumentError, InvalidTypeError, NotUpToBoundError
from statestores.spi.offsets import Position

AtLeast: TypeAlias = Position | Mapping[int, Position]
"""One position that every partition which is read must have reached, or one for each of them."""


class PositionBound:
    """What each partition of a store must have reached before it is read."""

    def __init__(self, name: str, partitions: int, at_least: AtLeast | None) -> None:
        """Ask *at_least* of the store *name*, which has this number of *partitions*.

        Raises:
            InvalidTypeError: It is neither a position nor a mapping of such.
            InvalidArgumentError: The store has no such partition.
        """
        self._name = name
        self._for_all: Position | None = None
        self._by_partition: dict[int, Position] = {}
        if at_least is None:
            return
        if isinstance(at_least, Position):
            self._for_all = at_least
            return
        if not isinstance(at_least, Mapping):
            raise _wrong_type(at_least)
        by_partition = cast("Mapping[int, Position]", at_least)  # what follows checks it
        for partition, position in by_partition.items():
            if type(partition) is not int or not isinstance(position, Position):
                raise _wrong_type(at_least)
            if not 0 <= partition < partitions:
                raise InvalidArgumentError(
                    f"at_least names the partition {partition} of {name!r}, which has the "
                    f"partitions 0 to {partitions - 1}"
                )
        self._by_partition = dict(by_partition)

    def of(self, partition: int) -> Position | None:
        """Return what is asked of *partition*; ``None`` when nothing is."""
        if self._for_all is not None:
            return self._for_all
        return self._by_partition.get(partition)

    def check(self, partition: int, wanted: Position, reached: Position) -> None:
        """Return if *reached* is at least *wanted*: an input that is not in it lacks all of it.

        Raises:
            NotUpToBoundError: It is not.
        """
        for source, offset in wanted.items():
            seen = reached.get(source)
            if seen is None or seen < offset:
                has = "nothing" if seen is None else f"offset {seen}"
                raise NotUpToBoundError(
                    f"partition {partition} of {self._name!r} has {has} of "
                    f"{source.topic}-{source.partition}, and offset {offset} was asked for; try "
                    "again, or read with another bound"
                )


def least_position(positions: Mapping[int, Position]) -> Position:
    """Return what each of *positions* has reached: an input that one of them lacks is left out."""
    first, *others = positions.values()
    return Position(
        {
            source: min(offset, *(other[source] for other in others)) if others else offset
            for source, offset in first.items()
            if all(source in other for other in others)
        }
    )


def _wrong_type(at_least: object) -> InvalidTypeError:
    return InvalidTypeError(
        "at_least is a Position, or a mapping from numbers of partitions to a Position each, got "
        f"{at_least!r}"
    )
