"""Keys that are in another partition than the one that the store's partitioner gives them."""

from collections.abc import Callable
from typing import Any

import pytest

from statestores.errors import InvalidStateStoreError, MisplacedKeyError
from statestores.partitioning import crc32_partitioner, murmur2_partitioner

PARTITIONS = 3
ABSENT = "nobody has this"
WORD = next(
    word
    for word in map(str, range(100))
    if (
        murmur2_partitioner.partition(word.encode(), PARTITIONS),
        crc32_partitioner.partition(word.encode(), PARTITIONS),
    )
    == (0, 2)
)
"""A word that murmur2 puts into partition 0, and CRC-32 into 2."""


@pytest.mark.spec("QRY-10")
def test_a_key_that_is_elsewhere_is_never_none(
    open_members: Callable[..., Any], kinds: Any
) -> None:
    """A topic was written by librdkafka, whose default is not murmur2: every query gave ``None``.

    The key was there, in another partition of the same process, and scans showed it. Now a miss is
    asked of the other partitions here, and what is found there is an error that says where the key
    is, by which partitioner, and what to do. It is not retryable: it would stay as it is.
    """
    for kind in kinds:
        members = open_members(kind.specification)
        kind.put(members.stores[2], WORD, 7)
        members.commit(2, {})
        store = members.queries.store("s", kind.type)
        for name, read in kind.one_key.items():
            with pytest.raises(
                MisplacedKeyError,
                match=r"in partition 2 of 's', where 'crc32' and 'crc32_random' would put it, and "
                r"'murmur2', the store's partitioner, looks for it in 0.*partition=2",
            ) as caught:
                read(store, WORD)
            assert not caught.value.retryable
            assert read(store, ABSENT) is None, (kind.name, name)

            members.here = {2}  # its place by murmur2 is not here: trying again would not help
            with pytest.raises(MisplacedKeyError):
                read(store, WORD)
            members.here = {1}
            with pytest.raises(InvalidStateStoreError, match="is in partition 0 of 's'"):
                read(store, WORD)
            members.here = {0, 1, 2}


@pytest.mark.spec("QRY-11")
def test_the_partition_that_the_caller_names_is_read(
    open_members: Callable[..., Any], kinds: Any
) -> None:
    """It was the documented way out, and it raised an error that says ``retryable``, for ever.

    The key's partition was computed all the same, and "is not here" when it was another one.
    """
    for kind in kinds:
        members = open_members(kind.specification)
        kind.put(members.stores[2], WORD, 7)
        members.commit(2, {})
        for read in kind.one_key.values():
            named = members.queries.store("s", kind.type, partition=2)
            assert read(named, WORD) is not None
            assert read(named, ABSENT) is None
            assert read(members.queries.store("s", kind.type, partition=1), WORD) is None


@pytest.mark.spec("QRY-1", "PAR-8")
def test_a_store_that_declares_crc32_is_read_where_librdkafka_put_its_keys(
    open_members: Callable[..., Any], kinds: Any
) -> None:
    """The way that the error names: the specification says who has placed the keys."""
    for kind in kinds:
        members = open_members(replaced(kind.specification, partitioner="crc32_random"))
        kind.put(members.stores[2], WORD, 7)
        members.commit(2, {})
        store = members.queries.store("s", kind.type)
        for name, read in kind.one_key.items():
            assert read(store, WORD) is not None, (kind.name, name)


def replaced(specification: Any, **changes: Any) -> Any:
    """Return *specification* with other arguments."""
    described = specification.describe()
    kept = {
        name: getattr(specification, name)
        for name in ("history_retention_ms", "retention_ms", "window_size_ms")
        if name in described
    }
    arguments = {"key": specification.key, "value": specification.value, **kept, **changes}
    return type(specification)(specification.name, **arguments)


@pytest.mark.spec("QRY-10")
def test_many_keys_are_missed_like_one(open_members: Callable[..., Any], kinds: Any) -> None:
    """The error names the key that is elsewhere, and keys that are nowhere are ``None``."""
    kind = kinds[0]
    members = open_members(kind.specification)
    kind.put(members.stores[2], WORD, 7)
    home = murmur2_partitioner.partition(b"here", PARTITIONS)
    kind.put(members.stores[home], "here", 1)
    for number in members.stores:
        members.commit(number, {})
    store = members.queries.store("s", kind.type)

    assert store.get_many(["here", ABSENT, "here"]) == [1, None, 1]
    with pytest.raises(MisplacedKeyError, match=f"the key {WORD.encode()!r} is in partition 2"):
        store.get_many(["here", ABSENT, WORD])
