"""Kafka's murmur2: known values, and the same for one key and for a column."""

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores import partitioning
from statestores.errors import InvalidArgumentError, InvalidTypeError, SerializationError
from statestores.partitioning import (
    MAX_PARTITIONS,
    Murmur2Partitioner,
    fingerprint,
    murmur2,
    murmur2_array,
    murmur2_partitioner,
    partitioner_by_name,
    register_partitioner,
)
from statestores.serdes import int64, utf8
from statestores_conformance.many_cases import for_each

# From UtilsTest.testMurmur2 of Apache Kafka, where they are signed.
KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
SEED = 20130704


class LastBytePartitioner(Murmur2Partitioner):
    """What somebody else may write; each instance is another one."""

    def __init__(self) -> None:
        object.__setattr__(self, "name", "last-byte")

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def partition(self, key: bytes, partitions: int) -> int:
        """Return the last byte, modulo."""
        return key[-1] % partitions if key else 0


@pytest.mark.spec("PAR-2")
@for_each(("key", "signed"), KAFKA.items())
def test_hashes_are_those_of_kafka(key: bytes, signed: int) -> None:
    """One by one and in a column."""
    assert murmur2(key) == signed % (1 << 32)
    assert murmur2_array(pa.array([key])).tolist() == [signed % (1 << 32)]


@pytest.mark.spec("PAR-2")
@for_each(("key", "signed"), KAFKA.items())
def test_partitions_are_those_of_kafka(key: bytes, signed: int) -> None:
    """``toPositive`` clears the highest bit, and is not the absolute value."""
    assert murmur2_partitioner.partition(key, 7) == (signed & 0x7FFFFFFF) % 7
    assert (
        murmur2_partitioner.partition(key, MAX_PARTITIONS) == signed & 0x7FFFFFFF
        or (signed & 0x7FFFFFFF) == MAX_PARTITIONS
    )


@pytest.mark.spec("PAR-1", "PAR-3")
@given(st.lists(st.binary(max_size=40)), st.integers(1, MAX_PARTITIONS), st.integers(0, 5))
def test_a_column_is_partitioned_as_its_keys_are(
    keys: list[bytes], partitions: int, before: int
) -> None:
    """Of any lengths, sliced and empty; every result is a partition."""
    column = pa.array([*[b"xyz"] * before, *keys], pa.binary()).slice(before)

    found = murmur2_partitioner.partition_array(column, partitions)
    assert found.type == pa.int32()
    assert found.to_pylist() == [murmur2_partitioner.partition(key, partitions) for key in keys]
    assert all(0 <= partition < partitions for partition in found.to_pylist())


@pytest.mark.spec("PAR-3")
@for_each("width", [1, 3, 4, 8, 16, 17, 100])
def test_keys_of_one_length_are_hashed_alike(width: int) -> None:
    """The way of keys that have one length, over more than one block."""
    rng = random.Random(SEED)  # repeatable, not secret
    keys = [rng.randbytes(width) for _ in range(partitioning._BLOCK_KEYS + 7)]

    hashes = murmur2_array(pa.array(keys)).tolist()
    sample = [0, len(keys) - 1, *rng.sample(range(len(keys)), 500)]
    assert [hashes[row] for row in sample] == [murmur2(keys[row]) for row in sample]


@pytest.mark.spec("PAR-3")
def test_a_few_long_keys_among_short_ones_are_hashed_alike() -> None:
    """The way of keys that are much longer than the rest."""
    rng = random.Random(SEED)  # repeatable, not secret
    keys = [rng.randbytes(rng.randrange(50)) for _ in range(300)]
    keys += [rng.randbytes(length) for length in (5_000, 70_001, 4_000)]
    rng.shuffle(keys)

    assert murmur2_array(pa.array(keys)).tolist() == [murmur2(key) for key in keys]


@pytest.mark.spec("PAR-3")
def test_columns_come_in_any_layout() -> None:
    """Chunked, large, fixed, dictionary-encoded: the partitions are the same."""
    keys = [b"abcdefgh", b"12345678", b"abcdefgh"]
    expected = [murmur2_partitioner.partition(key, 12) for key in keys]

    for arrow_type in (pa.binary(), pa.large_binary(), pa.binary(8), pa.binary_view()):
        column = pa.array(keys, arrow_type)
        assert murmur2_partitioner.partition_array(column, 12).to_pylist() == expected
    encoded = pa.array(keys).dictionary_encode()
    assert murmur2_partitioner.partition_array(encoded, 12).to_pylist() == expected
    chunked = pa.chunked_array([keys[:1], [], keys[1:]], pa.binary())
    found = murmur2_partitioner.partition_array(chunked, 12)
    assert [len(chunk) for chunk in found.chunks] == [1, 0, 2]
    assert found.to_pylist() == expected


@pytest.mark.spec("PAR-2")
def test_typed_keys_land_where_kafka_puts_them() -> None:
    """The partition is that of the bytes which Kafka's serdes give."""
    assert murmur2_partitioner.partition(utf8.encode("foobar"), 4) == (-790332482 & 0x7FFFFFFF) % 4
    numbers = pa.array([1, -1, 1 << 40])
    assert murmur2_partitioner.partition_array(int64.encode_array(numbers), 4).to_pylist() == [
        murmur2_partitioner.partition(number.to_bytes(8, "big", signed=True), 4)
        for number in (1, -1, 1 << 40)
    ]


@pytest.mark.spec("PAR-4")
@for_each("key", [None, "abc", bytearray(b"abc"), 5])
def test_what_is_no_key_has_no_partition(key: Any) -> None:
    """Not even ``None``: a store has no record without a key."""
    with pytest.raises(InvalidTypeError, match="a key is bytes"):
        murmur2_partitioner.partition(key, 4)


@pytest.mark.spec("PAR-4")
def test_columns_with_other_keys_are_refused() -> None:
    """Null is named by its row; text has to be encoded first."""
    with pytest.raises(InvalidTypeError, match="null in row 2"):
        murmur2_partitioner.partition_array(pa.array([b"a", b"b", None]), 4)
    with pytest.raises(SerializationError, match="a column of binary, got one of string"):
        murmur2_partitioner.partition_array(pa.array(["a"]), 4)
    with pytest.raises(InvalidTypeError, match="pyarrow"):
        murmur2_partitioner.partition_array([b"a"], 4)


@pytest.mark.spec("PAR-5")
@for_each(
    ("partitions", "error"),
    [
        (0, InvalidArgumentError),
        (-1, InvalidArgumentError),
        (1 << 31, InvalidArgumentError),
        (1.0, InvalidTypeError),
        (True, InvalidTypeError),
        (None, InvalidTypeError),
    ],
)
def test_the_number_of_partitions_is_checked(partitions: Any, error: type[Exception]) -> None:
    """For one key and for a column, also an empty one."""
    with pytest.raises(error, match="number of partitions"):
        murmur2_partitioner.partition(b"a", partitions)
    with pytest.raises(error, match="number of partitions"):
        murmur2_partitioner.partition_array(pa.array([], pa.binary()), partitions)


@pytest.mark.spec("PAR-1", "PAR-6")
def test_the_fingerprint_does_not_change() -> None:
    """It would mean that keys are looked for where they are not."""
    assert fingerprint(murmur2_partitioner) == "ed68b58c17f142df"
    assert fingerprint(LastBytePartitioner()) != fingerprint(murmur2_partitioner)


@pytest.mark.spec("PAR-7")
def test_partitioners_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default and one's own; a name is given once, and unknown ones list the known."""
    monkeypatch.setattr(partitioning, "_registered", dict(partitioning._registered))
    own = LastBytePartitioner()
    register_partitioner(own)
    register_partitioner(own)
    register_partitioner(Murmur2Partitioner())

    assert partitioner_by_name("last-byte") is own
    assert partitioner_by_name("murmur2") is murmur2_partitioner
    with pytest.raises(
        InvalidArgumentError, match="'fnv1a'; known: crc32, crc32_random, last-byte, murmur2"
    ):
        partitioner_by_name("fnv1a")
    with pytest.raises(InvalidArgumentError, match="another partitioner is registered"):
        register_partitioner(LastBytePartitioner())
