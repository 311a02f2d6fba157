"""Commit, roll back, close: what is visible to whom, and what is found again."""

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError, StateStoreError
from statestores.spi import Durability, Isolation
from statestores_conformance.many_cases import for_each
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import CHANGELOG, INPUT, KEYS, Stores, StoreUnderTest


class CommitTests(StoreFixtures):
    """What a commit does with the pending writes."""

    @pytest.mark.spec("COM-1")
    def test_a_new_store_is_empty(self, opened: StoreUnderTest) -> None:
        """Nothing was written: no content, no offset, no position."""
        assert opened.content() == {}
        assert opened.committed() == {}
        assert opened.store.committed_offsets() == {}
        assert dict(opened.store.position) == {}

    @pytest.mark.spec("COM-24")
    def test_the_owner_reads_its_own_writes(self, opened: StoreUnderTest) -> None:
        """A pending write is read immediately, even over committed content."""
        opened.fill()
        opened.store.commit({})
        before = opened.content()
        opened.write(KEYS[0], 30)

        assert opened.content() != before
        assert set(opened.content()) == set(before)

    @pytest.mark.spec("COM-1")
    def test_nobody_else_sees_pending_writes(self, opened: StoreUnderTest) -> None:
        """A read-committed facade sees nothing that is pending."""
        opened.fill()

        assert opened.content() != {}
        assert opened.committed() == {}

    @pytest.mark.spec("COM-1")
    def test_a_commit_publishes_all_pending_writes(self, opened: StoreUnderTest) -> None:
        """What the owner read before the commit, everyone reads after it."""
        opened.fill()
        pending = opened.content()
        opened.store.commit({})

        assert opened.content() == pending
        assert opened.committed() == pending

    @pytest.mark.spec("COM-1", "COM-10")
    def test_a_commit_makes_writes_offsets_and_position_durable_together(
        self, persistent_stores: Stores
    ) -> None:
        """After reopening, all three are as the commit left them."""
        opened = persistent_stores.open()
        opened.fill()
        opened.store.advance_position({INPUT: 7})
        opened.store.commit({CHANGELOG: 41})
        committed = opened.content()
        opened.store.close()
        reopened = persistent_stores.open()

        assert reopened.content() == committed
        assert reopened.store.committed_offset(CHANGELOG) == 41
        assert dict(reopened.store.position) == {INPUT: 7}

    @pytest.mark.spec("COM-1", "COM-2")
    def test_commits_add_up_over_many_lives(self, persistent_stores: Stores) -> None:
        """Each life finds what the last one committed, and nothing that it left pending."""
        expected = persistent_stores.open("twin")
        for life in range(10):
            opened = persistent_stores.open()

            assert opened.content() == expected.content()
            for under_test in (opened, expected):
                under_test.write(KEYS[life % 4], 10 * life)
                under_test.erase(KEYS[(life + 1) % 4], 10 * life + 1)
                under_test.store.commit({CHANGELOG: life})
            opened.write(KEYS[2], 10 * life + 2)
            opened.store.close()

        assert persistent_stores.open().store.committed_offset(CHANGELOG) == 9

    @pytest.mark.spec("COM-1")
    def test_committing_nothing_is_not_an_error(self, opened: StoreUnderTest) -> None:
        """Without writes and offsets, a commit changes nothing."""
        opened.fill()
        opened.store.commit({CHANGELOG: 1})
        before = opened.content()
        opened.store.commit({})
        opened.store.commit({})

        assert opened.content() == opened.committed() == before
        assert opened.store.committed_offset(CHANGELOG) == 1

    @pytest.mark.spec("COM-1")
    def test_a_write_after_a_commit_is_pending_again(self, opened: StoreUnderTest) -> None:
        """Each commit publishes the writes before it, and none after it."""
        opened.write(KEYS[0], 1)
        opened.store.commit({})
        committed = opened.committed()
        opened.write(KEYS[0], 2)
        opened.write(KEYS[1], 3)

        assert opened.committed() == committed
        assert opened.content() != committed

    @pytest.mark.spec("COM-12", "COM-25")
    @pytest.mark.parametrize("durability", Durability, ids=lambda durability: durability.value)
    def test_each_durability_survives_reopening(
        self, persistent_stores: Stores, durability: Durability
    ) -> None:
        """A commit may choose its own durability; with either it is found again."""
        opened = persistent_stores.open()
        opened.fill()
        pending = opened.content()
        try:
            opened.store.commit({CHANGELOG: 1}, durability=durability)
        except StateStoreError:
            skip_unless_promised("durable_commit", made=durability is Durability.PROCESS_CRASH)
            raise
        opened.store.close()

        assert persistent_stores.open().content() == pending


class FailedCommitTests(StoreFixtures):
    """Commits that are refused."""

    @pytest.mark.spec("COM-9", "COM-19")
    @for_each(
        ("offsets", "error"),
        [
            ({CHANGELOG: -1}, InvalidArgumentError),
            ({CHANGELOG: 2**63}, InvalidArgumentError),
            ({CHANGELOG: 1.0}, InvalidTypeError),
            ({CHANGELOG: True}, InvalidTypeError),
            ({CHANGELOG: "1"}, InvalidTypeError),
            ({("changelog", 0): 1}, InvalidTypeError),
            ({"changelog": 1}, InvalidTypeError),
            (None, InvalidTypeError),
            ([(CHANGELOG, 1)], InvalidTypeError),
        ],
    )
    def test_malformed_offsets_commit_nothing(
        self, opened: StoreUnderTest, offsets: object, error: type[StateStoreError]
    ) -> None:
        """The error is ours, nothing is visible to others, and all writes are still pending."""
        opened.fill()
        pending = opened.content()
        with pytest.raises(error):
            opened.store.commit(offsets)  # type: ignore[arg-type]  # on purpose

        assert opened.committed() == {}
        assert opened.content() == pending
        assert opened.store.committed_offsets() == {}

    @pytest.mark.spec("COM-9")
    def test_a_refused_commit_can_be_made_good(self, persistent_stores: Stores) -> None:
        """After the error, the same writes are committed with the right offset."""
        opened = persistent_stores.open()
        opened.fill()
        pending = opened.content()
        with pytest.raises(InvalidArgumentError):
            opened.store.commit({CHANGELOG: -1})
        opened.store.commit({CHANGELOG: 1})
        opened.store.close()

        assert persistent_stores.open().content() == pending

    @pytest.mark.spec("COM-9")
    def test_a_refused_commit_can_be_rolled_back(self, opened: StoreUnderTest) -> None:
        """After the error, `rollback` forgets the writes as it always does."""
        opened.write(KEYS[0], 1)
        opened.store.commit({})
        before = opened.content()
        opened.fill()
        with pytest.raises(InvalidArgumentError):
            opened.store.commit({CHANGELOG: -1})
        opened.store.rollback()

        assert opened.content() == opened.committed() == before

    @pytest.mark.spec("COM-9", "COM-19")
    def test_one_malformed_offset_refuses_them_all(self, opened: StoreUnderTest) -> None:
        """A good offset next to a bad one is not committed."""
        good = CHANGELOG._replace(partition=1)
        with pytest.raises(InvalidArgumentError):
            opened.store.commit({good: 1, CHANGELOG: -1})

        assert opened.store.committed_offsets() == {}


class RollbackTests(StoreFixtures):
    """What a rollback forgets, and what it keeps."""

    @pytest.mark.spec("COM-7")
    def test_a_rollback_forgets_every_pending_write(self, opened: StoreUnderTest) -> None:
        """Puts, overwritten puts and deletions are gone; the last commit is back."""
        opened.fill()
        opened.store.commit({})
        before = opened.content()
        for number, key in enumerate(KEYS):
            opened.write(key, 100 + number)
        opened.erase(KEYS[0], 200)
        opened.store.rollback()

        assert opened.content() == before
        assert opened.content(Isolation.READ_UNCOMMITTED) == before

    @pytest.mark.spec("COM-7")
    def test_a_rollback_before_the_first_commit_empties_the_store(
        self, opened: StoreUnderTest
    ) -> None:
        """With nothing committed, nothing is left."""
        opened.fill()
        opened.store.rollback()

        assert opened.content() == {}

    @pytest.mark.spec("COM-7")
    def test_what_was_rolled_back_is_not_committed_later(self, persistent_stores: Stores) -> None:
        """The next commit holds only what was written since the rollback."""
        opened = persistent_stores.open()
        expected = persistent_stores.open("twin")
        opened.fill()
        opened.store.rollback()
        for under_test in (opened, expected):
            under_test.write(KEYS[3], 1)
            under_test.store.commit({})
        opened.store.close()

        assert persistent_stores.open().content() == expected.content()

    @pytest.mark.spec("COM-7")
    def test_a_rollback_keeps_offsets_and_restores_the_position(
        self, opened: StoreUnderTest
    ) -> None:
        """Committed offsets stay; the position is again the committed one."""
        opened.store.advance_position({INPUT: 5})
        opened.store.commit({CHANGELOG: 4})
        opened.store.advance_position({INPUT: 9})
        opened.store.rollback()

        assert opened.store.committed_offset(CHANGELOG) == 4
        assert dict(opened.store.position) == {INPUT: 5}

    @pytest.mark.spec("COM-7")
    def test_a_rollback_of_nothing_is_not_an_error(self, opened: StoreUnderTest) -> None:
        """Without pending writes it changes nothing, however often it is repeated."""
        opened.fill()
        opened.store.commit({})
        before = opened.content()
        opened.store.rollback()
        opened.store.rollback()

        assert opened.content() == before


class UncommittedBytesTests(StoreFixtures):
    """The measure of what a crash would forget."""

    @pytest.mark.spec("COM-16")
    def test_nothing_is_uncommitted_at_first(self, opened: StoreUnderTest) -> None:
        """A store that was just opened has nothing to lose."""
        assert opened.store.uncommitted_bytes == 0

    @pytest.mark.spec("COM-16")
    def test_each_write_counts_its_key_and_value(self, opened: StoreUnderTest) -> None:
        """Overwritten writes are counted again: the measure is of work, not of memory."""
        sizes = []
        for number in (1, 2, 3):
            opened.write(KEYS[0], number)
            sizes.append(opened.store.uncommitted_bytes)

        assert sizes[0] >= len(KEYS[0]) + 1
        assert sizes == [sizes[0], 2 * sizes[0], 3 * sizes[0]]

    @pytest.mark.spec("COM-16")
    def test_a_commit_and_a_rollback_start_again(self, opened: StoreUnderTest) -> None:
        """After either, nothing is uncommitted."""
        opened.fill()
        opened.store.commit({})
        after_commit = opened.store.uncommitted_bytes
        opened.fill()
        opened.store.rollback()

        assert [after_commit, opened.store.uncommitted_bytes] == [0, 0]

    @pytest.mark.spec("COM-45", "COM-28")
    def test_a_write_of_no_bytes_is_pending(self, opened: StoreUnderTest) -> None:
        """Whether something waits for the commit is not judged by its size."""
        seen = [opened.store.has_pending_writes]
        opened.write(b"", 0)
        seen.append(opened.store.has_pending_writes)
        opened.store.commit({})
        seen.append(opened.store.has_pending_writes)
        opened.write(b"", 0)
        opened.store.rollback()
        seen.append(opened.store.has_pending_writes)

        assert seen == [False, True, False, False]

    @pytest.mark.spec("COM-47")
    def test_the_next_offset_is_one_after_what_is_committed(self, opened: StoreUnderTest) -> None:
        """It is 0 at the beginning, and works for the input too, which only the position knows."""
        seen = [opened.store.next_offset(CHANGELOG), opened.store.next_offset(INPUT)]
        opened.fill()
        opened.store.advance_position({INPUT: 7})
        seen.append(opened.store.next_offset(INPUT))
        opened.store.commit({CHANGELOG: 0})
        seen += [opened.store.next_offset(CHANGELOG), opened.store.next_offset(INPUT)]
        seen += [opened.facade().next_offset(CHANGELOG), opened.facade().next_offset(INPUT)]

        assert seen == [0, 0, 0, 1, 8, 1, 8]

    @pytest.mark.spec("COM-16", "COM-9")
    def test_a_refused_commit_counts_on(self, opened: StoreUnderTest) -> None:
        """What is still pending is still counted."""
        opened.fill()
        before = opened.store.uncommitted_bytes
        with pytest.raises(InvalidArgumentError):
            opened.store.commit({CHANGELOG: -1})

        assert opened.store.uncommitted_bytes == before
