"""What a store writes down about itself, and what it says when it is closed."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from statestores.errors import (
    CapabilityNotSupportedError,
    StoreClosedError,
    StoreMismatchError,
)
from statestores.serdes import utf8
from statestores.spi import (
    Changes,
    KeyValue,
    Session,
    StateStore,
    StoreSpecification,
    Versioned,
    Window,
)
from statestores_conformance.subjects.store_fixtures import StoreFixtures
from statestores_conformance.subjects.stores import (
    CHANGELOG,
    INPUT,
    KEYS,
    RETENTION_MS,
    Stores,
    StoreUnderTest,
)

_OF_A_CLOSED_STORE: dict[str, Callable[[StateStore], object]] = {
    "commit": lambda store: store.commit({}),
    "commit of offsets": lambda store: store.commit({CHANGELOG: 1}),
    "committed_offset": lambda store: store.committed_offset(CHANGELOG),
    "committed_offsets": lambda store: store.committed_offsets(),
    "clear_offsets": lambda store: store.clear_offsets(),
    "advance_position": lambda store: store.advance_position({INPUT: 1}),
    "rollback": lambda store: store.rollback(),
    "pending_changes": lambda store: store.pending_changes(),
    "committed_changes": lambda store: list(store.committed_changes()),
    "replay": lambda store: store.replay(Changes([], [])),
    "truncate": lambda store: store.truncate(),
}


def _others(stores: Stores) -> dict[str, StoreSpecification[Any, Any]]:
    """Return specifications that differ from that of *stores*, by what the message must name."""
    serde: Any = utf8  # only its name is compared
    if stores.kind == "versioned":
        retention = RETENTION_MS
        return {
            "other": Versioned("other", history_retention_ms=retention),
            "key-value": KeyValue("store"),
            "history_retention_ms": Versioned("store", history_retention_ms=retention + 1),
            "utf8": Versioned("store", history_retention_ms=retention, key=serde),
            "murmur3": Versioned("store", history_retention_ms=retention, partitioner="murmur3"),
        }
    if stores.kind == "window":
        times: Any = {"retention_ms": RETENTION_MS, "window_size_ms": 10}
        return {
            "other": Window("other", **times),
            "session": Session("store", retention_ms=RETENTION_MS),
            "retention_ms": Window("store", **{**times, "retention_ms": RETENTION_MS + 1}),
            "window_size_ms": Window("store", **{**times, "window_size_ms": 11}),
            "retain_duplicates": Window("store", **times, retain_duplicates=True),
            "utf8": Window("store", **times, key=serde),
            "murmur3": Window("store", **times, partitioner="murmur3"),
        }
    if stores.kind == "session":
        return {
            "other": Session("other", retention_ms=RETENTION_MS),
            "window": Window("store", retention_ms=RETENTION_MS, window_size_ms=10),
            "retention_ms": Session("store", retention_ms=RETENTION_MS + 1),
            "utf8": Session("store", retention_ms=RETENTION_MS, key=serde),
            "murmur3": Session("store", retention_ms=RETENTION_MS, partitioner="murmur3"),
        }
    return {
        "other": KeyValue("other"),
        "versioned": Versioned("store", history_retention_ms=RETENTION_MS),
        "utf8": KeyValue("store", key=serde),
        "murmur3": KeyValue("store", partitioner="murmur3"),
    }


def _refuses(call: Callable[[StateStore], object], store: StateStore) -> bool:
    try:
        call(store)
    except StoreClosedError:
        return True
    return False


class DescriptionTests(StoreFixtures):
    """A store describes itself, and insists."""

    @pytest.mark.spec("COM-13")
    def test_a_store_knows_what_it_is(self, stores: Stores) -> None:
        """Name and specification are those with which it was opened."""
        store = stores.open().store

        assert store.name == "store"
        assert store.specification == stores.specification()

    @pytest.mark.spec("COM-13", "COM-27")
    def test_another_specification_is_refused(self, persistent_stores: Stores) -> None:
        """The message says how they differ, and the stored content is untouched.

        Whoever has no stores of the other kind at all may say that instead.
        """
        opened = persistent_stores.open()
        opened.fill()
        opened.store.commit({CHANGELOG: 5})
        committed = opened.content()
        opened.store.close()
        for difference, specification in _others(persistent_stores).items():
            known = specification.kind.name == persistent_stores.kind
            if known or persistent_stores.has_kind_of(specification):
                with pytest.raises(StoreMismatchError, match=difference):
                    persistent_stores.open_as(specification)
            else:
                with pytest.raises(CapabilityNotSupportedError):
                    persistent_stores.open_as(specification)
        reopened = persistent_stores.open()

        assert reopened.content() == committed
        assert reopened.store.committed_offset(CHANGELOG) == 5


class ClosedStoreTests(StoreFixtures):
    """What closing does, and what a closed store still answers."""

    @pytest.mark.spec("COM-8")
    def test_closing_does_not_commit(self, persistent_stores: Stores) -> None:
        """What was pending is forgotten: content, offsets and position are the committed ones."""
        opened = persistent_stores.open()
        opened.write(KEYS[0], 1)
        opened.store.commit({CHANGELOG: 1})
        committed = opened.content()
        opened.fill()
        opened.store.advance_position({INPUT: 9})
        opened.store.close()
        reopened = persistent_stores.open()

        assert reopened.content() == committed
        assert reopened.store.committed_offset(CHANGELOG) == 1
        assert dict(reopened.store.position) == {}

    @pytest.mark.spec("COM-8")
    def test_the_end_of_a_block_does_not_commit(self, persistent_stores: Stores) -> None:
        """Neither a normal end nor an exception commits."""
        opened = persistent_stores.open()
        with opened.store:
            opened.fill()
        second = persistent_stores.open()
        with contextlib.suppress(ZeroDivisionError), second.store:
            second.fill()
            raise ZeroDivisionError

        assert persistent_stores.open().content() == {}

    @pytest.mark.spec("COM-8")
    def test_a_store_is_closed_once(self, opened: StoreUnderTest) -> None:
        """Closing again is not an error."""
        before = opened.store.is_open
        opened.store.close()
        opened.store.close()

        assert [before, opened.store.is_open] == [True, False]

    @pytest.mark.spec("COM-15")
    def test_a_closed_store_refuses_every_call(self, opened: StoreUnderTest) -> None:
        """Everything that reads or writes raises, even when there is nothing to do."""
        opened.fill()
        opened.store.commit({CHANGELOG: 1})
        opened.store.close()
        calls = _OF_A_CLOSED_STORE.items()

        assert [name for name, call in calls if not _refuses(call, opened.store)] == []

    @pytest.mark.spec("COM-15")
    def test_a_closed_store_refuses_reads_and_writes(self, opened: StoreUnderTest) -> None:
        """The kind's own methods raise as well, with pending writes and without.

        Also for what comes too late: that a store drops it is no answer of one that is closed.
        """
        opened.fill()
        opened.write(KEYS[2], 50_000)
        opened.store.close()
        calls: list[Callable[[], object]] = [
            opened.content,
            opened.committed,
            lambda: opened.write(KEYS[0], 60_000),
            lambda: opened.write(KEYS[0], 30),
            lambda: opened.erase(KEYS[0], 30),
        ]
        for call in calls:
            with pytest.raises(StoreClosedError):
                call()

    @pytest.mark.spec("COM-15")
    def test_a_closed_store_still_says_what_it_was(self, stores: Stores) -> None:
        """Name, specification and whether it is persistent remain known."""
        store = stores.open().store
        before = (store.name, store.specification, store.persistent)
        store.close()

        assert (store.name, store.specification, store.persistent) == before

    @pytest.mark.spec("KVS-13", "VRS-26")
    def test_an_iterator_over_a_closed_store_raises(self, opened: StoreUnderTest) -> None:
        """Iterators left open, over pending and over committed content, do not just end."""
        opened.fill()
        opened.store.commit({})
        opened.write(KEYS[2], 30)
        held = opened.frozen()
        opened.store.close()
        with pytest.raises(StoreClosedError):
            held()
