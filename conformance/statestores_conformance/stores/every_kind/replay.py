"""Changes and replay: what changelogs and snapshots rest on. And truncation."""

import itertools
import random
from dataclasses import fields, replace
from typing import Any

import pytest

from statestores.errors import InvalidArgumentError, InvalidTypeError
from statestores.spi import Changes, StateStore
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import CHANGELOG, INPUT, KEYS, Stores, StoreUnderTest

_SEED = 889

_NUMBERS = ("times_ms", "end_times_ms", "timestamps_ms", "sequences")
"""What changes of some kinds have, and those of others do not."""

_MANY_ROWS = 20_000
"""More than any chunk of an export has."""


def split(changes: Changes, *cuts: int) -> list[Changes]:
    """Cut *changes* before each of the rows *cuts*."""
    ends = [0, *sorted(cuts), len(changes)]
    return [_rows(changes, start, stop) for start, stop in itertools.pairwise(ends)]


def _rows(changes: Changes, start: int, stop: int) -> Changes:
    return Changes(**{name: column[start:stop] for name, column in _columns(changes).items()})


def _columns(changes: Changes) -> dict[str, Any]:
    """Return the columns that the store's kind has, by name."""
    columns = {field.name: getattr(changes, field.name) for field in fields(Changes)}
    return {name: column for name, column in columns.items() if column is not None}


def load_all(source: StateStore, target: StateStore) -> None:
    """Load the committed content of *source* into the empty *target*, and commit it."""
    content = source.committed_content()
    for changes in content.changes:
        target.load(changes, stream_time_ms=content.stream_time_ms)
    target.advance_position(content.position)
    target.commit(dict(content.offsets))


class ReplayTests(StoreFixtures):
    """Replaying gives the store from which the changes came."""

    def _live(self, opened: StoreUnderTest) -> list[Changes]:
        """Write and commit for a while, and return what each commit was about to make durable."""
        log = []
        for number in range(40):
            key = KEYS[number * 7 % 4]
            opened.write(key, 10 * number)
            if number % 3 == 1:
                opened.erase(KEYS[number % 4], 10 * number + 5)
            if number % 4 == 3:
                log.append(opened.store.pending_changes())
                opened.store.commit({CHANGELOG: number})
            if number % 10 == 8:
                opened.store.rollback()
        opened.store.rollback()
        return log

    @pytest.mark.spec("COM-17", "COM-35")
    def test_replaying_every_commit_gives_the_store(self, stores: Stores) -> None:
        """The pending changes of each commit, in order, into an empty store."""
        original, copy = stores.open("original"), stores.open("copy")
        for changes in self._live(original):
            copy.store.replay(changes)
        copy.store.commit({})

        assert copy.content() == copy.committed() == original.content()

    @pytest.mark.spec("COM-35")
    def test_pending_changes_lead_from_commit_to_commit(self, stores: Stores) -> None:
        """Onto the last committed content, they give what the next commit makes durable."""
        original, copy = stores.open("original"), stores.open("copy")
        for number, key in enumerate(KEYS * 3):
            original.write(key, 10 * number)
            original.erase(KEYS[number % 3], 10 * number + 5)
            copy.store.replay(original.store.pending_changes())
            original.store.commit({})
            copy.store.commit({})

            assert copy.committed() == original.committed()

    @pytest.mark.spec("COM-29")
    @for_each("seed", range(5))
    def test_replay_does_not_depend_on_batching(self, stores: Stores, seed: int) -> None:
        """However the log is cut into batches, and the batches into commits."""
        choose = random.Random(_SEED + seed)  # noqa: S311  # reproducible, not secret
        original, copy = stores.open(f"original-{seed}"), stores.open(f"copy-{seed}")
        for changes in self._live(original):
            rows = len(changes)
            for part in split(changes, *(choose.randrange(rows + 1) for _ in range(3))):
                copy.store.replay(part)
                if choose.random() < 0.3:
                    copy.store.commit({})
        copy.store.commit({})

        assert copy.committed() == original.committed()

    @pytest.mark.spec("COM-32")
    @for_each("start", [0, 1, 4, 9])
    def test_replay_is_idempotent(self, stores: Stores, start: int) -> None:
        """What the store reflects may be replayed again, from anywhere to the end."""
        original, copy = stores.open(f"original-{start}"), stores.open(f"copy-{start}")
        log = self._live(original)
        for changes in [*log, *log[start:]]:
            copy.store.replay(changes)
            copy.store.commit({})

        assert copy.committed() == original.committed()

    @pytest.mark.spec("COM-32")
    def test_the_original_may_replay_its_own_changes(self, stores: Stores) -> None:
        """As after a crash between the changelog and the commit: nothing is counted twice."""
        original = stores.open()
        log = self._live(original)
        before = original.committed()
        for changes in log[-2:]:
            original.store.replay(changes)
        original.store.commit({})

        assert original.committed() == before

    @pytest.mark.spec("COM-31")
    def test_the_last_change_of_a_key_wins(self, opened: StoreUnderTest) -> None:
        """Of several changes of one key, and of one time, the last one replayed counts."""
        keys, values = [b"a", b"b", b"a", b"b"], [b"1", None, b"2", b"3"]
        opened.store.replay(opened.changes(keys, values, [5, 5, 5, 5]))
        opened.store.replay(opened.changes([b"b"], [b"4"], [5]))

        assert opened.latest() == {b"a": b"2", b"b": b"4"}

    @pytest.mark.spec("COM-33")
    def test_replayed_changes_are_pending(self, stores: Stores) -> None:
        """The owner reads them immediately, others do not, and `rollback` forgets them."""
        original, copy = stores.open("original"), stores.open("copy")
        original.fill()
        copy.store.replay(original.store.pending_changes())

        assert copy.content() == original.content()
        assert copy.committed() == {}
        assert copy.store.uncommitted_bytes > 0
        copy.store.rollback()
        assert copy.content() == {}

    @pytest.mark.spec("COM-35")
    def test_asking_for_pending_changes_changes_nothing(self, opened: StoreUnderTest) -> None:
        """They stay pending, and are empty after a commit and a rollback."""
        opened.fill()
        before = opened.content()
        first, second = opened.store.pending_changes(), opened.store.pending_changes()
        opened.store.commit({})
        after_commit = opened.store.pending_changes()
        opened.fill()
        opened.store.rollback()

        assert _as_rows(first) == _as_rows(second)
        assert opened.content() == before
        assert len(after_commit) == len(opened.store.pending_changes()) == 0

    @pytest.mark.spec("COM-34", "COM-19")
    def test_changes_that_do_not_fit_are_refused(self, opened: StoreUnderTest) -> None:
        """Columns of other lengths, other types or another kind: nothing in them is taken."""
        bad: Any = None
        text: Any = "2"
        malformed = [
            opened.changes([b"a", b"b"], [b"1"], [1, 2]),
            opened.changes([b"a"], [b"1", b"2"], [1, 2]),
            opened.changes([b"a", bad], [b"1", b"2"], [1, 2]),
            opened.changes([b"a", b"b"], [b"1", text], [1, 2]),
        ]
        if opened.changes([], [], []).times_ms is None:
            malformed.append(Changes([b"a", b"b"], [b"1", b"2"], [1, 2]))
        else:
            malformed.append(Changes([b"a", b"b"], [b"1", b"2"]))
            malformed.append(opened.changes([b"a", b"b"], [b"1", b"2"], [1]))
            malformed.append(opened.changes([b"a", b"b"], [b"1", b"2"], [1, -1]))
        fitting = opened.changes([b"a"], [b"1"], [1])
        foreign: list[dict[str, Any]] = [
            {column: [1]} for column in _NUMBERS if getattr(fitting, column) is None
        ]
        malformed += [replace(fitting, **column) for column in foreign]
        for changes in malformed:
            with pytest.raises((InvalidArgumentError, InvalidTypeError)):
                opened.store.replay(changes)
            with pytest.raises((InvalidArgumentError, InvalidTypeError)):
                opened.store.load(changes)

            assert opened.content() == {}
            assert len(opened.store.pending_changes()) == 0


class CommittedContentTests(StoreFixtures):
    """Exporting what is committed."""

    @pytest.mark.spec("COM-20")
    def test_the_committed_content_rebuilds_the_store(self, stores: Stores) -> None:
        """Loaded into an empty store, it gives the same answers, offsets and position too."""
        original, copy = stores.open("original"), stores.open("copy")
        original.fill()
        original.store.advance_position({INPUT: 3})
        original.store.commit({CHANGELOG: 7})
        original.write(KEYS[0], 50)
        original.store.commit({CHANGELOG: 8})
        load_all(original.store, copy.store)

        assert copy.committed() == copy.content() == original.content()
        assert copy.store.committed_offsets() == {CHANGELOG: 8}
        assert dict(copy.store.position) == {INPUT: 3}

    @pytest.mark.spec("COM-20")
    def test_a_rebuilt_store_goes_on_alike(self, stores: Stores) -> None:
        """After the same further writes, original and copy still agree."""
        original, copy = stores.open("original"), stores.open("copy")
        original.fill()
        original.store.commit({})
        load_all(original.store, copy.store)
        for number in (5, 15, 25, 35):
            for under_test in (original, copy):
                under_test.write(KEYS[number % 4], number)
                under_test.erase(KEYS[(number + 1) % 4], number + 2)
                under_test.store.commit({})

            assert copy.committed() == original.committed()

    @pytest.mark.spec("COM-36")
    def test_the_committed_content_is_frozen_at_the_call(self, stores: Stores) -> None:
        """Pending writes are not in it, nor is what is committed while it is being read."""
        original, copy = stores.open("original"), stores.open("copy")
        original.fill()
        original.store.commit({CHANGELOG: 1})
        expected = original.content()
        original.write(KEYS[3], 60)
        content = original.store.committed_content()
        original.store.commit({CHANGELOG: 2})
        for changes in content.changes:
            copy.store.load(changes, stream_time_ms=content.stream_time_ms)
        copy.store.commit(dict(content.offsets))

        assert copy.content() == expected
        assert copy.store.committed_offsets() == {CHANGELOG: 1}

    @pytest.mark.spec("COM-20")
    @for_each("rows", [1, 2, 5])
    def test_a_load_does_not_depend_on_batching(self, stores: Stores, rows: int) -> None:
        """However the content is cut into chunks, and the chunks into commits."""
        original, copy = stores.open(f"original-{rows}"), stores.open(f"copy-{rows}")
        original.fill()
        original.store.commit({})
        content = original.store.committed_content()
        for changes in content.changes:
            for part in split(changes, *range(rows, len(changes), rows)):
                copy.store.load(part, stream_time_ms=content.stream_time_ms)
                copy.store.commit({})

        assert copy.committed() == original.committed()

    @pytest.mark.spec("COM-33")
    def test_a_load_is_pending(self, stores: Stores) -> None:
        """The owner reads it immediately, others do not, and `rollback` forgets it."""
        original, copy = stores.open("original"), stores.open("copy")
        original.fill()
        original.store.commit({})
        content = original.store.committed_content()
        for changes in content.changes:
            copy.store.load(changes, stream_time_ms=content.stream_time_ms)

        assert copy.content() == original.content()
        assert copy.committed() == {}
        copy.store.rollback()
        assert copy.content() == {}

    @pytest.mark.spec("COM-20", "COM-38")
    def test_a_large_content_comes_whole_and_in_chunks(self, stores: Stores) -> None:
        """More rows than an export may hold at a time: none is lost where a chunk ends."""
        original, copy = stores.open("original"), stores.open("copy")
        for number in range(_MANY_ROWS):
            original.write(b"%05d" % number, number)
        original.store.commit({})
        content = original.store.committed_content()
        largest = 0
        for changes in content.changes:
            largest = max(largest, len(changes))
            copy.store.load(changes, stream_time_ms=content.stream_time_ms)
        copy.store.commit({})

        assert copy.latest() == original.latest()
        assert largest < _MANY_ROWS

    @pytest.mark.spec("COM-38")
    def test_the_committed_content_is_in_key_order(self, opened: StoreUnderTest) -> None:
        """A snapshot can be written, and searched, without sorting."""
        opened.fill()
        opened.store.commit({})
        keys = [key for changes in opened.store.committed_changes() for key in changes.keys]

        assert keys == sorted(keys)

    @pytest.mark.spec("COM-36")
    def test_an_empty_store_has_no_content(self, opened: StoreUnderTest) -> None:
        """Nothing committed, nothing to export, and no error."""
        opened.fill()
        content = opened.store.committed_content()

        assert [len(changes) for changes in content.changes if len(changes)] == []
        assert dict(content.offsets) == {}
        assert content.stream_time_ms is None


class TruncationTests(StoreFixtures):
    """Deleting everything except the specification."""

    @pytest.mark.spec("COM-18")
    def test_truncating_deletes_everything_at_once(self, persistent_stores: Stores) -> None:
        """Content, offsets and position, pending and committed, are gone, after reopening too."""
        opened = persistent_stores.open()
        opened.fill()
        opened.store.advance_position({INPUT: 3})
        opened.store.commit({CHANGELOG: 5})
        opened.write(KEYS[0], 60)
        opened.store.truncate()
        found = [(opened.content(), opened.committed(), opened.store.committed_offsets())]
        positions = [dict(opened.store.position)]
        opened.store.close()
        reopened = persistent_stores.open()
        found.append((reopened.content(), reopened.committed(), reopened.store.committed_offsets()))
        positions.append(dict(reopened.store.position))

        assert found == [({}, {}, {})] * 2
        assert positions == [{}, {}]

    @pytest.mark.spec("COM-18")
    def test_a_truncated_store_can_be_filled_again(self, stores: Stores) -> None:
        """It is like a new one: earlier times and lower offsets are accepted."""
        truncated, fresh = stores.open("truncated"), stores.open("fresh")
        truncated.write(KEYS[0], 10_000)
        truncated.store.commit({CHANGELOG: 5})
        truncated.store.truncate()
        for under_test in (truncated, fresh):
            under_test.fill()
            under_test.store.commit({CHANGELOG: 1})

        assert truncated.committed() == fresh.committed()
        assert truncated.store.committed_offsets() == {CHANGELOG: 1}

    @pytest.mark.spec("COM-18")
    def test_truncating_an_empty_store_is_not_an_error(self, opened: StoreUnderTest) -> None:
        """Nothing to delete, nothing deleted."""
        opened.store.truncate()

        assert opened.content() == {}

    @pytest.mark.spec("COM-18", "COM-13")
    def test_the_specification_stays(self, persistent_stores: Stores) -> None:
        """The store is still itself, and opens as itself."""
        opened = persistent_stores.open()
        opened.store.truncate()
        opened.store.close()

        assert persistent_stores.open().store.name == "store"


def _as_rows(changes: Changes) -> list[tuple[object, ...]]:
    return list(zip(*_columns(changes).values(), strict=True))
