"""Read-only facades: what they see, and from where."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from statestores.errors import InvalidArgumentError, StoreClosedError
from statestores.spi import Isolation
from statestores_conformance.many_cases import for_each
from statestores_conformance.subjects.reading_threads import READERS, reading_threads
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import CHANGELOG, INPUT, KEYS, StoreUnderTest

_WRITES = frozenset(
    {
        "add_many",
        "advance_position",
        "clear_offsets",
        "close",
        "commit",
        "delete",
        "load",
        "max_many",
        "min_many",
        "put",
        "put_all",
        "put_if_absent",
        "put_many",
        "replay",
        "rollback",
        "truncate",
        "update_many",
    }
)

_COMMITS = 60
_WRITES_WHILE_READING = 1_000
_WRITES_PER_READ = 20
_PATIENCE_SECONDS = 5.0
"""A working reader starts its next read long before."""


def _is_refused(call: Callable[[], object]) -> bool:
    """Return whether *call* says that the store is closed."""
    try:
        call()
    except StoreClosedError:
        return True
    return False


class FacadeTests(StoreFixtures):
    """What a facade sees."""

    @pytest.mark.spec("ROF-1")
    @for_each("isolation", Isolation)
    def test_a_facade_has_no_write_methods(
        self, opened: StoreUnderTest, isolation: Isolation
    ) -> None:
        """They do not exist at all, rather than exist and raise."""
        facade = opened.facade(isolation)

        assert {name for name in dir(facade) if name in _WRITES} == set()

    @pytest.mark.spec("ROF-1")
    def test_a_facade_says_whose_it_is(self, opened: StoreUnderTest) -> None:
        """Name, specification and openness are those of the store, at either isolation."""
        facades = {isolation: opened.facade(isolation) for isolation in Isolation}
        before = {isolation: facade.is_open for isolation, facade in facades.items()}
        opened.store.close()

        for isolation, facade in facades.items():
            assert facade.name == opened.store.name, isolation
            assert facade.specification == opened.store.specification, isolation
            assert [before[isolation], facade.is_open] == [True, False], isolation

    @pytest.mark.spec("ROF-2")
    def test_a_facade_is_read_committed_unless_asked(self, opened: StoreUnderTest) -> None:
        """The default shows nothing that may be rolled back."""
        opened.store.advance_position({INPUT: 1})
        by_default = dict(opened.facade().position)
        by_name = dict(opened.facade("read_uncommitted").position)

        assert by_default == {}
        assert by_name == {INPUT: 1}

    @pytest.mark.spec("ROF-7")
    def test_a_committed_facade_follows_the_commits(self, opened: StoreUnderTest) -> None:
        """A facade made before anything was written sees each commit once it has returned."""
        facade = opened.facade()
        for number in range(5):
            opened.write(KEYS[0], number)
            opened.store.advance_position({INPUT: number})
            opened.store.commit({CHANGELOG: number})

            assert facade.committed_offset(CHANGELOG) == number
            assert dict(facade.position) == {INPUT: number}
            assert opened.committed() == opened.content()

    @pytest.mark.spec("ROF-8")
    def test_an_uncommitted_facade_sees_what_is_pending(self, opened: StoreUnderTest) -> None:
        """It sees what the owner sees, and no longer what was rolled back."""
        opened.write(KEYS[0], 1)
        opened.store.commit({})
        committed = opened.content()
        opened.fill()
        pending = opened.content(Isolation.READ_UNCOMMITTED)
        owner = opened.content()
        opened.store.rollback()

        assert pending == owner != committed
        assert opened.content(Isolation.READ_UNCOMMITTED) == committed

    @pytest.mark.spec("ROF-9")
    def test_position_and_offsets_belong_to_what_is_seen(self, opened: StoreUnderTest) -> None:
        """The position is the committed or the pending one; offsets are always committed."""
        opened.store.advance_position({INPUT: 1})
        opened.store.commit({CHANGELOG: 1})
        opened.store.advance_position({INPUT: 2})
        committed = opened.facade(Isolation.READ_COMMITTED)
        uncommitted = opened.facade(Isolation.READ_UNCOMMITTED)

        assert dict(committed.position) == {INPUT: 1}
        assert dict(uncommitted.position) == {INPUT: 2}
        assert committed.committed_offset(CHANGELOG) == 1
        assert uncommitted.committed_offset(CHANGELOG) == 1

    @pytest.mark.spec("ROF-10")
    @for_each("isolation", ["serializable", "", None, 1])
    def test_an_unknown_isolation_is_refused(
        self, opened: StoreUnderTest, isolation: str | None
    ) -> None:
        """The message lists the levels that exist."""
        with pytest.raises(InvalidArgumentError, match="read_committed"):
            opened.facade(isolation)  # type: ignore[arg-type]  # on purpose

    @pytest.mark.spec("ROF-4")
    def test_an_iterator_of_a_facade_is_frozen(self, opened: StoreUnderTest) -> None:
        """Writes, commits and rollbacks after the call do not show, at either isolation."""
        opened.fill()
        opened.store.commit({})
        opened.write(KEYS[3], 30)
        expected = [opened.frozen(isolation)() for isolation in Isolation]
        after_write, after_commit, after_rollback = (
            [opened.frozen(isolation) for isolation in Isolation] for _ in range(3)
        )
        opened.store.rollback()
        seen = [[read() for read in after_rollback]]
        opened.write(KEYS[1], 40)
        opened.erase(KEYS[0], 41)
        seen.append([read() for read in after_write])
        opened.store.commit({})
        seen.append([read() for read in after_commit])

        assert seen == [expected] * 3

    @pytest.mark.spec("ROF-11")
    def test_a_held_iterator_does_not_stop_the_owner(self, opened: StoreUnderTest) -> None:
        """The owner writes, commits and closes while readers hold iterators unfinished."""
        opened.fill()
        opened.store.commit({})
        held = [opened.frozen(isolation) for isolation in Isolation for _ in range(20)]
        opened.write(KEYS[3], 30)
        opened.store.commit({CHANGELOG: 1})
        opened.store.close()

        assert not opened.store.is_open
        for read in held:
            with pytest.raises(StoreClosedError):
                read()

    @pytest.mark.spec("ROF-3")
    def test_a_facade_of_a_closed_store_refuses_every_read(self, opened: StoreUnderTest) -> None:
        """Reads raise, and so does the next step of an iterator, whatever was pending."""
        opened.fill()
        opened.store.commit({})
        opened.write(KEYS[3], 30)
        calls: dict[str, Callable[[], object]] = {}
        for isolation in Isolation:
            facade = opened.facade(isolation)
            calls |= {
                f"iterator, {isolation}": opened.frozen(isolation),
                f"content, {isolation}": partial(opened.content, isolation),
                f"offset, {isolation}": partial(facade.committed_offset, CHANGELOG),
                f"position, {isolation}": partial(getattr, facade, "position"),
            }
        opened.store.close()

        assert [what for what, call in calls.items() if not _is_refused(call)] == []


@pytest.mark.level("concurrent")
class FacadeThreadTests(StoreFixtures):
    """Each commit writes one number to every key, so a reader can tell one commit from two."""

    def _read_while_committing(self, opened: StoreUnderTest, read: Callable[[], None]) -> None:
        """Write and commit in this thread while others repeat *read*, each at least once."""

        def write(number: int) -> None:
            for key in KEYS:
                opened.write(key, number)

        write(0)
        opened.store.commit({CHANGELOG: 0})
        with reading_threads(read):
            for number in range(1, _COMMITS):
                write(number)
                if number % 3 == 0:
                    opened.store.rollback()
                    write(number)
                opened.store.commit({CHANGELOG: number})

    @pytest.mark.spec("ROF-2", "ROF-6")
    def test_a_scan_sees_one_commit(self, opened: StoreUnderTest) -> None:
        """An iterator over all keys never mixes two commits, and shows nothing pending."""

        def read() -> None:
            latest = opened.latest(Isolation.READ_COMMITTED)

            assert list(latest) == list(KEYS)
            assert len(set(latest.values())) == 1

        self._read_while_committing(opened, read)

    @pytest.mark.spec("ROF-2", "ROF-6")
    def test_many_keys_are_of_one_commit(self, opened: StoreUnderTest) -> None:
        """`get_many` never mixes two commits, and shows nothing pending."""

        def read() -> None:
            assert len(set(opened.latest_of_keys(Isolation.READ_COMMITTED))) == 1

        self._read_while_committing(opened, read)

    @pytest.mark.spec("ROF-6", "ROF-8")
    def test_an_uncommitted_facade_is_safe_from_other_threads(self, opened: StoreUnderTest) -> None:
        """Whatever is pending or being committed: every key is there, none goes back."""

        def read() -> None:
            scanned = opened.latest(Isolation.READ_UNCOMMITTED)
            numbers = [int(value or b"-1") for value in scanned.values()]

            assert list(scanned) == list(KEYS)
            assert max(numbers) - min(numbers) <= 1
            assert None not in opened.latest_of_keys(Isolation.READ_UNCOMMITTED)

        self._read_while_committing(opened, read)

    @pytest.mark.spec("ROF-6", "ROF-8")
    def test_an_uncommitted_facade_reads_while_the_owner_writes(
        self, opened: StoreUnderTest
    ) -> None:
        """Pending writes grow during the read, which sees the beginning of what was written."""
        written = [b"%04d" % number for number in range(_WRITES_WHILE_READING)]
        begun = threading.Semaphore(0)

        def read() -> None:
            begun.release()
            found = list(opened.latest(Isolation.READ_UNCOMMITTED))

            assert found == written[: len(found)]

        with reading_threads(read):
            for number, key in enumerate(written):
                # On a busy machine the owner would be done before anybody reads.
                if number % _WRITES_PER_READ == 0:
                    if not begun.acquire(timeout=_PATIENCE_SECONDS):
                        break  # every reader has failed, and says so below
                    while begun.acquire(blocking=False):
                        pass
                opened.write(key, number)

    @pytest.mark.spec("ROF-7", "ROF-6")
    def test_committed_offsets_never_go_back(self, opened: StoreUnderTest) -> None:
        """A thread that keeps asking sees the committed offset ascend."""
        seen = threading.local()

        def read() -> None:
            offset = opened.facade().committed_offset(CHANGELOG)

            assert offset is not None
            assert offset >= getattr(seen, "offset", 0)
            seen.offset = offset

        self._read_while_committing(opened, read)

    @pytest.mark.spec("ROF-5")
    @for_each("isolation", Isolation)
    def test_a_read_does_not_wait_for_pending_work(
        self, opened: StoreUnderTest, isolation: Isolation
    ) -> None:
        """While writes stay pending, another thread's read returns."""
        opened.fill()
        with ThreadPoolExecutor(1) as threads:
            content = threads.submit(opened.content, isolation).result(timeout=60)

        assert content == ({} if isolation is Isolation.READ_COMMITTED else opened.content())

    @pytest.mark.spec("ROF-6", "ROF-3")
    @pytest.mark.parametrize("isolation", Isolation, ids=lambda level: level.value)
    def test_closing_while_others_read_ends_their_reads(
        self, opened: StoreUnderTest, isolation: Isolation
    ) -> None:
        """Readers get whole answers until the owner closes, and a clear error from then on."""
        opened.fill()
        opened.store.commit({})
        expected = opened.content()
        started = threading.Barrier(READERS + 1)

        def read_until_closed() -> bool:
            started.wait()
            while True:
                try:
                    assert opened.content(isolation) == expected
                except StoreClosedError:
                    return True

        with ThreadPoolExecutor(READERS) as threads:
            readers = [threads.submit(read_until_closed) for _ in range(READERS)]
            started.wait()
            opened.store.close()

            assert all(reader.result() for reader in readers)
