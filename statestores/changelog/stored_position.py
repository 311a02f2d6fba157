"""A position as bytes, in the headers of frames and segments (LOG-25).

For each topic in order: ``length of the topic u16 | topic in UTF-8 | number of partitions u32``,
and for each of them ``partition u32 | offset u64``. Zeros pad it to a multiple of eight bytes;
they read as a topic of no length, which does not exist.
"""

from itertools import groupby
from struct import Struct, error

from statestores.errors import InvalidArgumentError
from statestores.spi.offsets import Position, TopicPartition

_LENGTH = Struct(">H")
_COUNT = Struct(">I")
_ENTRY = Struct(">IQ")
_ALIGNMENT = 8

_EMPTY = Position()


class MalformedPositionError(ValueError):
    """Bytes that are no position; the reader knows where they stood and reports that."""


def pack_position(position: Position) -> bytes:
    """Return the stored form.

    Raises:
        InvalidArgumentError: A topic or partition does not fit the format.
    """
    if not position:
        return b""
    parts = []
    for topic, partitions in groupby(sorted(position), key=lambda partition: partition.topic):
        name, numbers = topic.encode(), list(partitions)
        try:
            parts += [_LENGTH.pack(len(name)), name, _COUNT.pack(len(numbers))]
            parts += [_ENTRY.pack(number.partition, position[number]) for number in numbers]
        except error as failure:
            raise InvalidArgumentError(
                f"a changelog stores topics of up to 65535 bytes and partitions of 32 bits, got "
                f"{topic!r} with partition {numbers[-1].partition!r}"
            ) from failure
    packed = b"".join(parts)
    return packed + bytes(-len(packed) % _ALIGNMENT)


def unpack_position(packed: bytes) -> Position:
    """Return the position of which *packed* is the stored form.

    Raises:
        MalformedPositionError: It is not a position.
    """
    if not packed:
        return _EMPTY
    offsets: dict[TopicPartition, int] = {}
    at = 0
    try:
        while len(packed) - at >= _LENGTH.size and (length := _LENGTH.unpack_from(packed, at)[0]):
            at += _LENGTH.size
            topic = packed[at : at + length].decode()
            at += length
            (count,) = _COUNT.unpack_from(packed, at)
            at += _COUNT.size
            for _ in range(count):
                partition, offset = _ENTRY.unpack_from(packed, at)
                offsets[TopicPartition(topic, partition)] = offset
                at += _ENTRY.size
        if any(packed[at:]):
            raise MalformedPositionError(f"the position {packed!r} has bytes after its end")
        return Position(offsets)
    except (error, UnicodeDecodeError, InvalidArgumentError) as failure:
        raise MalformedPositionError(f"the position {packed!r} is malformed") from failure
