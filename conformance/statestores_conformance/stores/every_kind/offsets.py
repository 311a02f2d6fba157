"""Committed offsets and the position: what a store knows about its logs."""

from typing import TYPE_CHECKING

import pytest

from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    OffsetRegressionError,
    StateStoreError,
)
from statestores.spi import Position, TopicPartition
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import CHANGELOG, INPUT, KEYS, Stores, StoreUnderTest

if TYPE_CHECKING:
    from collections.abc import Callable

_OTHER = TopicPartition("changelog", 1)
_HIGHEST = 2**63 - 1


_ODD = [
    TopicPartition("changelog", 2**31),
    TopicPartition("changelog", 2**32),
    TopicPartition("changelog", 2**64),
    TopicPartition("\ud800", 0),
    TopicPartition("changelog\udcff", 0),
]
"""Partitions that no log has, and that a row may have no place for."""


class OffsetTests(StoreFixtures):
    """Committed offsets."""

    @pytest.mark.spec("COM-3")
    def test_an_unknown_partition_has_no_offset(self, opened: StoreUnderTest) -> None:
        """Without a commit there is no offset: ``None``, and never 0 or -1."""
        opened.store.commit({CHANGELOG: 5})

        assert opened.store.committed_offset(_OTHER) is None
        assert opened.store.committed_offset(TopicPartition("changelog-1", 0)) is None

    @pytest.mark.spec("COM-3")
    def test_every_offset_is_kept(self, persistent_stores: Stores) -> None:
        """From 0 to the highest int64, after reopening too."""
        for offset in (0, 1, 255, 2**31, _HIGHEST):
            with persistent_stores.open().store as store:
                store.commit({CHANGELOG: offset})
                at_once = store.committed_offset(CHANGELOG)
            with persistent_stores.open().store as reopened:
                later = reopened.committed_offset(CHANGELOG)

            assert [at_once, later] == [offset, offset]

    @pytest.mark.spec("COM-3")
    def test_an_offset_is_not_there_before_its_commit(self, opened: StoreUnderTest) -> None:
        """Writing alone gives no offset."""
        opened.fill()

        assert opened.store.committed_offset(CHANGELOG) is None

    @pytest.mark.spec("COM-23")
    def test_all_offsets_are_listed(self, persistent_stores: Stores) -> None:
        """Topics of any characters and partitions of any number are kept apart."""
        offsets = {
            TopicPartition(topic, number): 10 * number + len(topic)
            for topic in ("a", "a-1", "a\x00", "größe", "t" * 249)
            for number in (0, 1, 256, 2**31 - 1)
        }
        opened = persistent_stores.open()
        opened.store.commit(offsets)
        at_once = opened.store.committed_offsets()
        opened.store.close()
        reopened = persistent_stores.open().store

        assert at_once == reopened.committed_offsets() == offsets
        assert {key: reopened.committed_offset(key) for key in offsets} == offsets

    @pytest.mark.spec("COM-23")
    def test_the_listed_offsets_are_a_copy(self, opened: StoreUnderTest) -> None:
        """Changing what was returned changes nothing in the store."""
        opened.store.commit({CHANGELOG: 5})
        opened.store.committed_offsets().clear()

        assert opened.store.committed_offset(CHANGELOG) == 5

    @pytest.mark.spec("COM-4")
    def test_a_commit_leaves_other_offsets_alone(self, opened: StoreUnderTest) -> None:
        """``{}`` and other partitions' offsets do not move a partition's own."""
        opened.store.commit({CHANGELOG: 5, _OTHER: 6})
        opened.fill()
        opened.store.commit({})
        opened.store.commit({_OTHER: 7})

        assert opened.store.committed_offsets() == {CHANGELOG: 5, _OTHER: 7}
        assert opened.committed() == opened.content() != {}

    @pytest.mark.spec("COM-4")
    def test_committing_no_offsets_persists_the_writes(self, persistent_stores: Stores) -> None:
        """``commit({})`` is a commit like any other: what was pending is durable."""
        opened = persistent_stores.open()
        opened.store.commit({CHANGELOG: 5})
        opened.fill()
        pending = opened.content()
        opened.store.commit({})
        opened.store.close()
        reopened = persistent_stores.open()

        assert reopened.content() == pending
        assert reopened.store.committed_offset(CHANGELOG) == 5

    @pytest.mark.spec("COM-5")
    def test_none_forgets_one_offset(self, persistent_stores: Stores) -> None:
        """A partition committed as ``None`` has no offset, now and after reopening."""
        opened = persistent_stores.open()
        opened.store.commit({CHANGELOG: 5, _OTHER: 6})
        opened.store.commit({CHANGELOG: None})
        at_once = opened.store.committed_offsets()
        opened.store.close()

        assert at_once == {_OTHER: 6}
        assert persistent_stores.open().store.committed_offsets() == {_OTHER: 6}

    @pytest.mark.spec("COM-5")
    def test_forgetting_what_is_unknown_is_not_an_error(self, opened: StoreUnderTest) -> None:
        """``None`` for a partition without an offset has no effect."""
        opened.store.commit({CHANGELOG: None})

        assert opened.store.committed_offsets() == {}

    @pytest.mark.spec("COM-5", "COM-30")
    def test_clearing_forgets_all_offsets_at_once(self, persistent_stores: Stores) -> None:
        """No commit is needed: after reopening, the offsets are gone and the content is not."""
        opened = persistent_stores.open()
        opened.fill()
        opened.store.advance_position({INPUT: 3})
        opened.store.commit({CHANGELOG: 5, _OTHER: 6})
        committed = opened.content()
        opened.store.clear_offsets()
        at_once = opened.store.committed_offsets()
        opened.store.close()
        reopened = persistent_stores.open()

        assert at_once == reopened.store.committed_offsets() == {}
        assert reopened.content() == committed
        assert dict(reopened.store.position) == {INPUT: 3}

    @pytest.mark.spec("COM-30")
    def test_clearing_keeps_pending_writes_pending(self, opened: StoreUnderTest) -> None:
        """Writes and position that were pending neither become durable nor get lost."""
        opened.store.commit({CHANGELOG: 5})
        opened.fill()
        opened.store.advance_position({INPUT: 3})
        pending = opened.content()
        opened.store.clear_offsets()

        assert opened.content() == pending
        assert opened.committed() == {}
        opened.store.rollback()
        assert opened.content() == {}
        assert dict(opened.store.position) == {}

    @pytest.mark.spec("COM-6")
    def test_a_lower_offset_is_refused(self, opened: StoreUnderTest) -> None:
        """Two owners, or a replaced log: a human must look. Nothing is committed."""
        opened.store.commit({CHANGELOG: 5})
        opened.fill()
        with pytest.raises(OffsetRegressionError, match="4"):
            opened.store.commit({CHANGELOG: 4, _OTHER: 1})

        assert opened.store.committed_offsets() == {CHANGELOG: 5}
        assert opened.committed() == {}
        assert opened.content() != {}

    @pytest.mark.spec("COM-6")
    def test_a_lower_offset_is_refused_after_reopening(self, persistent_stores: Stores) -> None:
        """The store remembers how far it was."""
        persistent_stores.open().store.commit({CHANGELOG: 5})
        persistent_stores.close()
        reopened = persistent_stores.open().store
        with pytest.raises(OffsetRegressionError):
            reopened.commit({CHANGELOG: 4})

    @pytest.mark.spec("COM-6")
    def test_the_same_offset_is_legal(self, opened: StoreUnderTest) -> None:
        """Committing the same offset again commits the writes that came with it."""
        opened.store.commit({CHANGELOG: 5})
        opened.write(KEYS[0], 1)
        opened.store.commit({CHANGELOG: 5})

        assert opened.store.committed_offset(CHANGELOG) == 5
        assert opened.committed() == opened.content() != {}

    @pytest.mark.spec("COM-21")
    def test_a_forgotten_offset_may_begin_anew(self, opened: StoreUnderTest) -> None:
        """After `None` or `clear_offsets`, a lower offset is no regression."""
        opened.store.commit({CHANGELOG: 5})
        opened.store.commit({CHANGELOG: None})
        opened.store.commit({CHANGELOG: 3})
        opened.store.clear_offsets()
        opened.store.commit({CHANGELOG: 0})

        assert opened.store.committed_offset(CHANGELOG) == 0

    @pytest.mark.spec("COM-19")
    @for_each(
        ("partition", "error"),
        [
            (None, InvalidTypeError),
            ("changelog", InvalidTypeError),
            (("changelog", 0), InvalidTypeError),
            (TopicPartition("", 0), InvalidArgumentError),
            (TopicPartition("changelog", -1), InvalidArgumentError),
        ],
    )
    def test_a_malformed_partition_is_refused(
        self, opened: StoreUnderTest, partition: TopicPartition, error: type[StateStoreError]
    ) -> None:
        """Neither an offset can be asked for, nor committed, nor a position advanced."""
        calls: list[Callable[[], object]] = [
            lambda: opened.store.committed_offset(partition),
            lambda: opened.store.commit({partition: 1}),
            lambda: opened.store.advance_position({partition: 1}),
        ]
        for call in calls:
            with pytest.raises(error):
                call()

        assert opened.store.committed_offsets() == {}
        assert dict(opened.store.position) == {}

    @pytest.mark.spec("COM-3", "COM-10", "COM-19")
    @for_each("partition", _ODD)
    def test_an_odd_partition_is_kept_whole_or_refused(
        self, opened: StoreUnderTest, partition: TopicPartition
    ) -> None:
        """With our error, before anything is taken: else no commit would succeed after it."""
        calls: list[Callable[[], object]] = [
            lambda: opened.store.commit({partition: 1}),
            lambda: opened.store.advance_position({partition: 2}),
        ]
        opened.write(KEYS[0], 1)
        for call in calls:
            try:
                call()
            except InvalidArgumentError:
                continue
            opened.store.commit({})

            assert opened.facade().next_offset(partition) == opened.store.next_offset(partition)
            assert opened.store.next_offset(partition) in {2, 3}
        opened.store.commit({CHANGELOG: 1})

        assert opened.committed() == opened.content() != {}
        assert {*opened.store.committed_offsets()} <= {CHANGELOG, *_ODD}


class PositionTests(StoreFixtures):
    """The input position."""

    @pytest.mark.spec("COM-10")
    def test_a_position_is_pending_until_the_commit(self, opened: StoreUnderTest) -> None:
        """The owner sees it immediately, others with the commit that stores it."""
        opened.store.advance_position({INPUT: 7})
        before = dict(opened.facade().position)
        opened.store.commit({})

        assert dict(opened.store.position) == {INPUT: 7}
        assert before == {}
        assert dict(opened.facade().position) == {INPUT: 7}

    @pytest.mark.spec("COM-10")
    def test_a_position_that_was_not_committed_is_forgotten(
        self, persistent_stores: Stores
    ) -> None:
        """After reopening, the position is that of the last commit, and so is the content."""
        opened = persistent_stores.open()
        opened.store.advance_position({INPUT: 7})
        opened.store.commit({})
        opened.store.advance_position({INPUT: 9})
        opened.store.close()

        assert dict(persistent_stores.open().store.position) == {INPUT: 7}

    @pytest.mark.spec("COM-11")
    def test_a_position_never_goes_backward(self, opened: StoreUnderTest) -> None:
        """Each partition keeps its higher offset; a lower one is not an error."""
        other = INPUT._replace(partition=0)
        opened.store.advance_position({INPUT: 7, other: 1})
        opened.store.commit({})
        opened.store.advance_position({INPUT: 3, other: 2})

        assert opened.store.position == Position({INPUT: 7, other: 2})

    @pytest.mark.spec("COM-10")
    def test_a_position_is_a_value(self, opened: StoreUnderTest) -> None:
        """What was read does not change when the store advances."""
        opened.store.advance_position({INPUT: 7})
        position = opened.store.position
        opened.store.advance_position({INPUT: 8})

        assert dict(position) == {INPUT: 7}

    @pytest.mark.spec("COM-10")
    def test_a_position_may_be_advanced_by_a_position(self, opened: StoreUnderTest) -> None:
        """What one store gives, another accepts."""
        opened.store.advance_position(Position({INPUT: 0}))

        assert opened.store.position == Position({INPUT: 0})

    @pytest.mark.spec("COM-19")
    @for_each("offset", [-1, 2**63, None, 1.0, True])
    def test_a_malformed_position_is_refused(self, opened: StoreUnderTest, offset: int) -> None:
        """The error is ours, and nothing advances, not even in the good partition."""
        good = INPUT._replace(partition=0)
        with pytest.raises((InvalidTypeError, InvalidArgumentError)):
            opened.store.advance_position({good: 1, INPUT: offset})

        assert dict(opened.store.position) == {}
