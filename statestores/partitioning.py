"""From the bytes of a key to the partition that holds it.

A store that was written under one partitioner and is read under another finds nothing, so a store
remembers the partitioner's name, and `fingerprint` tells whether a name still means the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from struct import unpack_from
from typing import Any, Final, Protocol
from zlib import crc32

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.serdes.arrow_columns import (
    as_binary,
    binary_data,
    binary_offsets,
    map_chunks,
    numpy,
    pyarrow,
)
from statestores.spi.specification import StoreSpecification

MAX_PARTITIONS: Final = (1 << 31) - 1
"""A partition's number is an int32, as it is in Kafka."""

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_UINT32: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_WORD_BYTES: Final = 4

_NOWHERE: Final = _UINT32
"""What `fingerprint` takes for the partition of a key that has none: it is above all partitions."""

_BLOCK_KEYS: Final = 1 << 15
"""Keys that are hashed together: the data in use then fits into a core's cache."""

_FEW_KEYS: Final = 16
"""Up to this many keys are hashed faster one by one than by calling numpy for each of their
words."""


class Partitioner(Protocol):
    """A function from key bytes to a partition: the same for ever and on every machine (PAR-1)."""

    @property
    def name(self) -> str:
        """The name that a specification gives."""

    def partition(self, key: bytes, partitions: int) -> int:
        """Return the partition of *key*, from 0 and below *partitions*.

        Raises:
            InvalidTypeError: The key is not bytes, or the number of partitions not an int.
            InvalidArgumentError: There are no partitions, or too many; or such a key may be in
                any of them.
        """

    def partition_array(self, keys: Any, partitions: int) -> Any:
        """Return an int32 column with the partition of each key of the Arrow binary column *keys*.

        Raises:
            InvalidTypeError: It is no Arrow column, or a key is null.
            SerializationError: The column does not hold bytes.
            InvalidArgumentError: There are no partitions, or too many; or a key may be in any of
                them.
        """


@dataclass(frozen=True, slots=True)
class Murmur2Partitioner:
    """Kafka's default: murmur2 of the key bytes, made positive, modulo the partitions (PAR-2)."""

    name: str = field(default="murmur2", init=False)

    def partition(self, key: bytes, partitions: int) -> int:
        """Return the partition of *key*, where a Kafka producer would put it."""
        _check_key(key)
        _check_partitions(partitions)
        return (murmur2(key) & _POSITIVE) % partitions

    def partition_array(self, keys: Any, partitions: int) -> Any:
        """Return the partition of each of *keys*; some ten million keys a second."""
        _check_partitions(partitions)

        def place(array: Any) -> Any:
            positive = murmur2_array(array) & numpy().uint32(_POSITIVE)
            return positive % numpy().uint32(partitions)

        return _partition_column(place, keys)


@dataclass(frozen=True, slots=True)
class Crc32Partitioner:
    """librdkafka's ``consistent``: CRC-32 of the key bytes modulo the partitions (PAR-8).

    The empty key, like no key at all, goes to partition 0.
    """

    name: str = field(default="crc32", init=False)

    def partition(self, key: bytes, partitions: int) -> int:
        """Return the partition of *key*, where librdkafka's ``consistent`` would put it."""
        _check_key(key)
        _check_partitions(partitions)
        return crc32(key) % partitions

    def partition_array(self, keys: Any, partitions: int) -> Any:
        """Return the partition of each of *keys*; some million keys a second."""
        _check_partitions(partitions)
        return _partition_column(lambda array: _crc32_array(array) % partitions, keys)


@dataclass(frozen=True, slots=True)
class Crc32RandomPartitioner:
    """librdkafka's default, ``consistent_random``: as ``consistent`` except for empty keys (PAR-9).

    librdkafka puts these, like records without a key, into any partition. So there is no partition
    in which to look for the empty key.
    """

    name: str = field(default="crc32_random", init=False)

    def partition(self, key: bytes, partitions: int) -> int:
        """Return the partition of *key*, where librdkafka's default would put it."""
        found = crc32_partitioner.partition(key, partitions)
        if not key:
            raise InvalidArgumentError(
                "the empty key may be in any partition, where librdkafka puts it at random: name "
                "the partition that is meant"
            )
        return found

    def partition_array(self, keys: Any, partitions: int) -> Any:
        """Return the partition of each of *keys*; some million keys a second."""

        def place(array: Any) -> Any:
            lengths = numpy().diff(binary_offsets(array))
            if not lengths.all():
                self.partition(b"", partitions)
            return _crc32_array(array) % partitions

        _check_partitions(partitions)
        return _partition_column(place, keys)


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2 of *data*, from 0 to 2**32 - 1.

    Java shows the same 32 bits as a signed number.
    """
    length = len(data)
    word_count = length // _WORD_BYTES
    hashed = _SEED ^ (length & _UINT32)
    for word in unpack_from(f"<{word_count}I", data):
        mixed = word * _FACTOR & _UINT32
        hashed = (hashed * _FACTOR ^ (mixed ^ (mixed >> 24)) * _FACTOR) & _UINT32
    rest = data[word_count * _WORD_BYTES :]
    if rest:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _FACTOR & _UINT32
    hashed = (hashed ^ (hashed >> 13)) * _FACTOR & _UINT32
    return hashed ^ (hashed >> 15)


def murmur2_array(array: Any) -> Any:
    """Return `murmur2` of each value of a ``pyarrow.binary()`` array, as numpy ``uint32``.

    Requires: no value is null.
    """
    np = numpy()
    hashes = np.empty(len(array), np.uint32)
    if not len(array):
        return hashes
    data = binary_data(array)
    offsets = binary_offsets(array)
    for first in range(0, len(array), _BLOCK_KEYS):
        stop = min(first + _BLOCK_KEYS, len(array))
        hashes[first:stop] = _murmur2_block(data, offsets[first : stop + 1])
    return hashes


def fingerprint(partitioner: Partitioner) -> str:
    """Return 16 hexadecimal digits that change when *partitioner* puts keys elsewhere.

    They are computed from where it puts 256 keys of 0 to 31 bytes, refusals among them. Equal
    digits do not prove that two functions are the same; different ones prove that they are not.
    """
    digest = sha256()
    for number in range(256):
        key = sha256(number.to_bytes(2, "big")).digest()[: number % 32]
        for partitions in (2, 12, 1_009):
            try:
                place = partitioner.partition(key, partitions)
            except InvalidArgumentError:
                place = _NOWHERE
            digest.update(place.to_bytes(4, "big"))
    return digest.hexdigest()[:16]


def register_partitioner(partitioner: Partitioner) -> None:
    """Make *partitioner* known under its name, in this process; the same one again is no error.

    Raises:
        InvalidArgumentError: Another partitioner has the name.
    """
    present = _registered.setdefault(partitioner.name, partitioner)
    if present != partitioner:
        raise InvalidArgumentError(
            f"another partitioner is registered as {partitioner.name!r}: {present!r}; "
            "a name stands for one function for ever, so choose another name"
        )


def partitioner_by_name(name: str) -> Partitioner:
    """Return the partitioner that is registered as *name*.

    Raises:
        InvalidArgumentError: There is none.
    """
    found = _registered.get(name)
    if found is None:
        raise InvalidArgumentError(
            f"no partitioner is registered as {name!r}; known: {', '.join(partitioner_names())}; "
            "register your own with register_partitioner(...)"
        )
    return found


def placed_elsewhere(
    key: bytes, specification: StoreSpecification[Any, Any], partitions: int, found_in: int
) -> str:
    """Return in words that *key* is in the partition *found_in*, where its store does not look.

    They end with what to declare, so that the caller can add how to read the key as it is.
    """
    agreeing = [
        name for name in partitioner_names() if _puts(_registered[name], key, partitions, found_in)
    ]
    others = f", where {' and '.join(map(repr, agreeing))} would put it" if agreeing else ""
    name = specification.partitioner
    return (
        f"the key {key!r} is in partition {found_in} of {specification.name!r}{others}, and "
        f"{name!r}, the store's partitioner, looks for it in "
        f"{partitioner_by_name(name).partition(key, partitions)}: declare the one that the writer "
        "uses, as partitioner=... of the specification, "
    )


def _puts(partitioner: Partitioner, key: bytes, partitions: int, number: int) -> bool:
    try:
        return partitioner.partition(key, partitions) == number
    except InvalidArgumentError:
        return False  # it may be in any of them


def _check_key(key: object) -> None:
    """Accept a key.

    Raises:
        InvalidTypeError: It is not ``bytes``.
    """
    if type(key) is not bytes:
        raise InvalidTypeError(f"a key is bytes, got {key!r}; encode it with its serde first")


def partitioner_names() -> list[str]:
    """Return the names of the registered partitioners, in order."""
    return sorted(_registered)


def _check_partitions(partitions: object) -> None:
    """Accept a number of partitions.

    Raises:
        InvalidTypeError: It is not an ``int``.
        InvalidArgumentError: It is out of bounds.
    """
    if type(partitions) is not int:
        raise InvalidTypeError(f"the number of partitions must be an int, got {partitions!r}")
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidArgumentError(
            f"the number of partitions must be from 1 to {MAX_PARTITIONS}, got {partitions!r}"
        )


def _partition_column(place: Callable[[Any], Any], keys: Any) -> Any:
    """Return an int32 column of what *place* gives for the keys in each chunk of *keys*."""

    def chunk(array: Any) -> Any:
        if array.null_count:
            row = array.is_null().index(True).as_py()
            raise InvalidTypeError(f"a key is bytes, got null in row {row}; it has no partition")
        return pyarrow().array(place(as_binary(array, "bytes")).astype(numpy().int32))

    return map_chunks(chunk, keys, pyarrow().int32())


def _crc32_array(array: Any) -> Any:
    """Return the CRC-32 of each value of a ``pyarrow.binary()`` array, as numpy ``int64``."""
    return numpy().fromiter(map(crc32, array.to_pylist()), "int64", len(array))


def _murmur2_block(data: Any, offsets: Any) -> Any:
    """Return the hashes of the keys between *offsets* in *data*.

    Each step takes the next word of all the keys that have one. The keys are in the order of their
    length, longest first, so these are always the first ones.
    """
    np = numpy()
    starts = offsets[:-1].astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    order = None
    if (lengths != lengths[0]).any():
        # numpy sorts 16-bit numbers in linear time.
        sortable = -lengths if lengths.max() >> 15 else (-lengths).astype(np.int16)
        order = np.argsort(sortable, kind="stable")
        starts, lengths = starts[order], lengths[order]
    # A word may begin at any byte: a view in which neighbours overlap.
    words = np.ndarray((max(len(data) - 3, 0),), "<u4", data, strides=(1,))
    hashed = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    word_counts = lengths // _WORD_BYTES
    keys_with_word = np.searchsorted(-word_counts, -np.arange(word_counts[0]))
    longest = 0
    for word_number, count in enumerate(keys_with_word.tolist()):
        if count <= _FEW_KEYS < word_number:
            longest = count
            break
        word = words[starts[:count] + word_number * _WORD_BYTES] * np.uint32(_FACTOR)
        word ^= word >> np.uint32(24)
        word *= np.uint32(_FACTOR)
        hashed[:count] *= np.uint32(_FACTOR)
        hashed[:count] ^= word
    _finish(data, starts[longest:], lengths[longest:], hashed[longest:])
    for key in range(longest):
        hashed[key] = murmur2(data[starts[key] : starts[key] + lengths[key]].tobytes())
    if order is None:
        return hashed
    in_order = np.empty_like(hashed)
    in_order[order] = hashed
    return in_order


def _finish(data: Any, starts: Any, lengths: Any, hashed: Any) -> None:
    """Mix the bytes after the last whole word of each key into *hashed*, and then mix it all."""
    np = numpy()
    rests = lengths % _WORD_BYTES
    with_rest = np.flatnonzero(rests)
    if len(with_rest):
        rest_starts = (starts + lengths - rests)[with_rest]
        rests = rests[with_rest]
        mixed = hashed[with_rest]
        for number in range(_WORD_BYTES - 1):
            has = np.flatnonzero(rests > number)
            byte = data[rest_starts[has] + number].astype(np.uint32)
            mixed[has] ^= byte << np.uint32(8 * number)
        hashed[with_rest] = mixed * np.uint32(_FACTOR)
    hashed ^= hashed >> np.uint32(13)
    hashed *= np.uint32(_FACTOR)
    hashed ^= hashed >> np.uint32(15)


_registered: dict[str, Partitioner] = {}

murmur2_partitioner = Murmur2Partitioner()
"""The default of every specification."""

crc32_partitioner = Crc32Partitioner()
"""For stores whose keys librdkafka's ``consistent`` has placed."""

crc32_random_partitioner = Crc32RandomPartitioner()
"""For stores whose keys librdkafka has placed by default, with ``consistent_random``."""

register_partitioner(murmur2_partitioner)
register_partitioner(crc32_partitioner)
register_partitioner(crc32_random_partitioner)
