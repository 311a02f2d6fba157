"""What a restore refuses, before it changes anything."""

from collections.abc import Callable
from typing import Any

import pytest

from statestores.arrow import restore
from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    OffsetOutOfRangeError,
    SnapshotCorruptedError,
    StoreClosedError,
    StoreMismatchError,
)
from statestores.spi import (
    KeyValue,
    KeyValueStore,
    TopicPartition,
    Versioned,
    VersionedStore,
)

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

BytesStore = KeyValueStore[bytes, bytes]
BytesVersions = VersionedStore[bytes, bytes]
Ask = Callable[[Any], dict[str, Any]]

COUNTS = KeyValue("counts")
RATES = Versioned("rates", history_retention_ms=1_000)
INPUT = TopicPartition("input", 0)


@pytest.mark.spec("SNP-13")
def test_rows_of_unknown_origin_are_not_wiped(
    snapshot: Any, counts_changelog: Any, open_store: Any
) -> None:
    """The store has rows and no offset: only its owner can say what that means."""
    store = open_store(COUNTS)
    store.put(b"mine", b"1")
    store.commit({})
    with pytest.raises(StoreMismatchError, match="holds rows and has no committed offset"):
        restore(store, snapshot=snapshot, changelog=counts_changelog)

    assert list(store.range()) == [(b"mine", b"1")]


@pytest.mark.spec("SNP-13")
def test_a_changelog_that_begins_too_late_is_refused(
    live: BytesStore, snapshot: Any, counts_changelog: Any, open_store: Any
) -> None:
    """The message says which offset is needed, and what helps."""
    counts_changelog.forget_until(snapshot.offset + 2)
    store = open_store(COUNTS)
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 0 on, and it begins at .* snapshot"):
        restore(store, changelog=counts_changelog)
    with pytest.raises(OffsetOutOfRangeError, match=f"from offset {snapshot.offset + 1} on"):
        restore(store, snapshot=snapshot, changelog=counts_changelog)

    assert store.committed_offsets() == {}
    assert list(store.range()) == []


@pytest.mark.spec("SNP-13")
def test_a_store_ahead_of_the_changelog_is_refused(
    live: BytesStore,
    snapshot: Any,
    counts_changelog: Any,
    counts_log: TopicPartition,
    open_store: Any,
    answers: Ask,
) -> None:
    """Someone replaced the changelog, or it has lost its end."""
    live.commit({counts_log: counts_changelog.end_offset})
    before = answers(live)
    with pytest.raises(StoreMismatchError, match="and the changelog ends before"):
        restore(live, changelog=counts_changelog)
    counts_changelog.forget_everything()
    with pytest.raises(StoreMismatchError, match=r"the snapshot .* stands at offset"):
        restore(open_store(COUNTS), snapshot=snapshot, changelog=counts_changelog)

    assert answers(live) == before


@pytest.mark.spec("SNP-13")
def test_a_snapshot_of_another_store_is_refused(snapshot: Any, open_store: Any) -> None:
    """By name, by kind, by retention; the message says in what they differ."""
    for specification, message in (
        (KeyValue("others"), "name is 'counts', expected 'others'"),
        (Versioned("counts", history_retention_ms=1), "kind is 'key-value', expected 'versioned'"),
        (KeyValue("counts", partitioner="other"), "partitioner is 'murmur2', expected 'other'"),
    ):
        with pytest.raises(StoreMismatchError, match=message):
            restore(open_store(specification), snapshot=snapshot)


@pytest.mark.spec("SNP-13")
def test_a_snapshot_of_another_partition_is_refused(snapshot: Any, open_store: Any) -> None:
    """The keys of partition 1 do not belong into partition 0."""
    with pytest.raises(StoreMismatchError, match="expected TopicPartition"):
        restore(
            open_store(COUNTS), snapshot=snapshot, partition=TopicPartition("counts-changelog", 1)
        )


@pytest.mark.spec("SNP-13")
def test_a_changelog_of_another_kind_is_refused(rates_changelog: Any, open_store: Any) -> None:
    """It has times, and the store has none."""
    with pytest.raises(StoreMismatchError, match="a versioned store"):
        restore(open_store(COUNTS), changelog=rates_changelog)


@pytest.mark.spec("SNP-13")
def test_goals_that_cannot_be_reached_are_refused(
    live: BytesStore, snapshot: Any, counts_changelog: Any, open_store: Any
) -> None:
    """Behind the store, behind the snapshot, after the end, below 0."""
    end = counts_changelog.end_offset
    with pytest.raises(InvalidArgumentError, match="a restore only goes forward"):
        restore(live, changelog=counts_changelog, to_offset=3)
    with pytest.raises(InvalidArgumentError, match="the snapshot stands at"):
        restore(
            open_store(COUNTS),
            snapshot=snapshot,
            changelog=counts_changelog,
            to_offset=snapshot.offset - 1,
        )
    with pytest.raises(OffsetOutOfRangeError, match=f"ends before {end}"):
        restore(open_store(COUNTS), changelog=counts_changelog, to_offset=end)
    with pytest.raises(OffsetOutOfRangeError, match=f"ends before {snapshot.offset + 1}"):
        restore(open_store(COUNTS), snapshot=snapshot, to_offset=snapshot.offset + 1)
    with pytest.raises(InvalidArgumentError, match="from 0"):
        restore(open_store(COUNTS), changelog=counts_changelog, to_offset=-1)


def test_pending_writes_are_not_committed_by_the_way(
    snapshot: Any, counts_changelog: Any, open_store: Any
) -> None:
    """They are the owner's, who has not said so."""
    store = open_store(COUNTS)
    store.put(b"pending", b"1")
    with pytest.raises(InvalidArgumentError, match="pending writes"):
        restore(store, changelog=counts_changelog)

    assert store.get(b"pending") == b"1"


def test_arguments_that_mean_nothing_are_refused(
    snapshot: Any, counts_changelog: Any, open_store: Any
) -> None:
    """No source, no rows for each batch, no open store."""
    store = open_store(COUNTS)
    with pytest.raises(InvalidArgumentError, match="nothing to restore from"):
        restore(store)
    with pytest.raises(InvalidArgumentError, match="batch_rows"):
        restore(store, changelog=counts_changelog, batch_rows=0)
    store.close()
    with pytest.raises(StoreClosedError):
        restore(store, changelog=counts_changelog)


@pytest.mark.spec("SNP-13")
def test_a_damaged_snapshot_does_not_empty_the_store(
    live: BytesStore, snapshot: Any, counts_changelog: Any, open_store: Any, answers: Ask
) -> None:
    """A store that is behind is worth more than half a snapshot."""
    copy = open_store(COUNTS)
    restore(copy, changelog=counts_changelog, to_offset=30)
    counts_changelog.forget_until(snapshot.offset + 1)
    before = answers(copy)
    data = snapshot.path / "data-0000.arrow"
    data.write_bytes(data.read_bytes()[:-1] + b"\x01")
    with pytest.raises(SnapshotCorruptedError):
        restore(copy, snapshot=snapshot, changelog=counts_changelog)

    assert answers(copy) == before


# What an interruption leaves.


@pytest.mark.parametrize("named", ["snapshot", "changelog"])
def test_a_path_is_neither_a_snapshot_nor_a_changelog(
    named: str, snapshot: Any, open_store: Any, tmp_path: Any
) -> None:
    """The message says what makes one of it; nothing is emptied."""
    store = open_store(COUNTS)
    sources: dict[str, Any] = {"snapshot": snapshot, named: str(tmp_path)}
    with pytest.raises(InvalidTypeError, match=f"a {named} is what .* gives, got '/"):
        restore(store, **sources)

    assert store.committed_offsets() == {}
