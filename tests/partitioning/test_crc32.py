"""librdkafka's partitioners: known values, librdkafka itself, and one key like a column."""

import ctypes
import random
import re
from importlib.metadata import PackageNotFoundError, files
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.partitioning import (
    MAX_PARTITIONS,
    crc32_partitioner,
    crc32_random_partitioner,
    fingerprint,
    murmur2_partitioner,
    partitioner_by_name,
)
from statestores_conformance.many_cases import for_each

SEED = 20130704
DRAWN_KEYS = 2_000

# From rd_kafka_msg_partitioner_consistent of librdkafka 2.16.1, for 3, 12 and 1009 partitions.
LIBRDKAFKA: dict[bytes, tuple[int, int, int]] = {
    b"": (0, 0, 0),
    b"a": (0, 3, 137),
    b"abc": (0, 6, 34),
    b"foobar": (2, 5, 800),
    b"21": (1, 4, 843),
    b"123456789": (2, 2, 940),
    b"\x00": (1, 1, 946),
    b"\xff\xff": (0, 0, 432),
    b"\x00\x00\x00\x00\x00\x00\x00\x01": (0, 3, 319),
    b"schl\xc3\xbcssel": (0, 6, 706),
    b"a-little-bit-longer-string": (2, 2, 342),
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": (1, 1, 881),
}


@pytest.fixture(scope="module")
def librdkafka() -> ctypes.CDLL:
    """Return librdkafka as confluent-kafka brings it along."""
    try:
        brought = files("confluent-kafka") or []
    except PackageNotFoundError as error:
        pytest.skip(str(error))
    (library,) = [each for each in brought if re.fullmatch(r"librdkafka.*(so.*|dylib)", each.name)]
    return ctypes.CDLL(str(library.locate()))


def placed(librdkafka: ctypes.CDLL, rule: str, key: bytes | None, partitions: int) -> int:
    """Return where the partitioner *rule* of librdkafka puts *key*.

    Topic and opaque are null: it looks at them only to draw a partition for an empty key.
    """
    function = getattr(librdkafka, f"rd_kafka_msg_partitioner_{rule}")
    function.restype = ctypes.c_int32
    function.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    found: int = function(None, key, len(key or b""), partitions, None, None)
    return found


@pytest.mark.spec("PAR-8", "PAR-9")
def test_keys_go_where_librdkafka_has_put_them() -> None:
    """Values that librdkafka gave, so that this is checked where it is not installed."""
    for key, places in LIBRDKAFKA.items():
        for partitions, place in zip((3, 12, 1_009), places, strict=True):
            assert crc32_partitioner.partition(key, partitions) == place
            if key:
                assert crc32_random_partitioner.partition(key, partitions) == place


@pytest.mark.spec("PAR-2", "PAR-8", "PAR-9")
def test_keys_go_where_librdkafka_puts_them(librdkafka: ctypes.CDLL) -> None:
    """Any key, any number of partitions; and murmur2 of librdkafka is that of Java."""
    rng = random.Random(SEED)  # repeatable, not secret
    keys = [rng.randbytes(rng.randrange(1, 40)) for _ in range(DRAWN_KEYS)]
    for key in [*LIBRDKAFKA, *keys]:
        partitions = rng.choice([1, 2, 12, rng.randint(1, MAX_PARTITIONS), MAX_PARTITIONS])
        place = crc32_partitioner.partition(key, partitions)
        assert place == placed(librdkafka, "consistent", key, partitions)
        assert murmur2_partitioner.partition(key, partitions) == placed(
            librdkafka, "murmur2", key, partitions
        )
        if key:
            assert place == placed(librdkafka, "consistent_random", key, partitions)
            assert place == crc32_random_partitioner.partition(key, partitions)
    for partitions in (1, 12, MAX_PARTITIONS):  # a null key lies where the empty one does
        assert placed(librdkafka, "consistent", None, partitions) == 0
        assert crc32_partitioner.partition(b"", partitions) == 0


@pytest.mark.spec("PAR-1", "PAR-3")
@given(st.lists(st.binary(max_size=40)), st.integers(1, MAX_PARTITIONS), st.integers(0, 5))
def test_a_column_is_partitioned_as_its_keys_are(
    keys: list[bytes], partitions: int, before: int
) -> None:
    """Of any lengths, sliced and empty; every result is a partition."""
    column = pa.array([*[b""] * before, *keys], pa.binary()).slice(before)

    found = crc32_partitioner.partition_array(column, partitions)
    assert found.type == pa.int32()
    assert found.to_pylist() == [crc32_partitioner.partition(key, partitions) for key in keys]
    if all(keys):
        assert crc32_random_partitioner.partition_array(column, partitions).equals(found)
    else:
        with pytest.raises(InvalidArgumentError, match="the empty key"):
            crc32_random_partitioner.partition_array(column, partitions)


@pytest.mark.spec("PAR-9")
def test_an_empty_key_that_may_be_anywhere_has_no_partition() -> None:
    """To say 0 would be to look in one of the partitions, and to be right by luck."""
    with pytest.raises(InvalidArgumentError, match="the empty key may be in any partition"):
        crc32_random_partitioner.partition(b"", 4)


@pytest.mark.spec("PAR-4", "PAR-5")
@for_each("partitioner", [crc32_partitioner, crc32_random_partitioner])
def test_what_is_no_key_or_number_is_refused(partitioner: Any) -> None:
    """As by murmur2."""
    with pytest.raises(InvalidTypeError, match="a key is bytes"):
        partitioner.partition("a", 4)
    with pytest.raises(InvalidArgumentError, match="number of partitions"):
        partitioner.partition(b"a", 0)
    with pytest.raises(InvalidTypeError, match="null in row 1"):
        partitioner.partition_array(pa.array([b"a", None]), 4)
    with pytest.raises(InvalidTypeError, match="number of partitions"):
        partitioner.partition_array(pa.array([b"a"]), 4.0)


@pytest.mark.spec("PAR-6", "PAR-7")
def test_the_fingerprints_do_not_change() -> None:
    """It would mean that keys are looked for where they are not."""
    assert partitioner_by_name("crc32") is crc32_partitioner
    assert partitioner_by_name("crc32_random") is crc32_random_partitioner
    assert fingerprint(crc32_partitioner) == "021b1c5d9428e1e3"
    assert fingerprint(crc32_random_partitioner) == "6b59c920661469b2"
