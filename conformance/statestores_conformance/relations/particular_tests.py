"""Relations that make sense for one kind of store: its windows, its sessions, its time to live."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import strategies as st

from statestores.spi import Window
from statestores_conformance.relations import (
    KeyValueKind,
    Read,
    Subject,
    TimestampedKind,
    Trial,
    WindowKind,
    Write,
)
from statestores_conformance.relations.key_value import keys
from statestores_conformance.relations.kinds import KEYS, VALUES, Form
from statestores_conformance.relations.session import sessions

_WINDOWS = Read("fetch_all", (), Form.ITERATOR)
_values = st.sampled_from(VALUES)
_HIGHER_BY = (1, 2**16 - 3, 2**32 - 3)
"""What is added to sequence numbers: across the limits of two and of four bytes, in each trial."""

_MERGES = st.sampled_from(["min_many", "max_many"])


class WindowRelationTests:
    """What the size of a window means, and what retained duplicates are."""

    @pytest.mark.spec("WIN-15")
    def test_the_size_is_where_windows_end_and_nothing_else(self, subject: Subject) -> None:
        """With another size, the same windows hold the same, and end later by the difference."""

        def relation(trial: Trial) -> None:
            narrow = trial.specification
            assert isinstance(narrow, Window)
            narrow_store = trial.open("narrow")
            wide_stores = []
            # To the widest window that the retention allows.
            for ms in (1, narrow.retention_ms - narrow.window_size_ms):
                wide = replace(narrow, window_size_ms=narrow.window_size_ms + ms)
                wide_stores.append((ms, trial.open(f"wide{ms}", specification=wide)))
            stores = [narrow_store, *(store for _, store in wide_stores)]
            for batch in trial.batches():
                trial.write_alike(stores, batch)
                for store in stores:
                    trial.commit(store)
            # One more window, which has just expired whatever was drawn.
            now_ms = trial.script.value(narrow_store).stream_time_ms or 0
            for start_ms in (now_ms, now_ms + narrow.retention_ms + 1):
                trial.write_alike(stores, [Write("put", (b"a", b"1", start_ms))])
            for read, expected in trial.all_answers(narrow_store):
                for ms, store in wide_stores:
                    wanted = expected
                    if read.form is Form.ITERATOR:
                        wanted = trial.script.let("wanted", "wider", expected, ms)
                    trial.answers(wanted, store, read)

        subject.holds(relation)

    @pytest.mark.spec("WIN-6", "WIN-9")
    def test_the_last_duplicates_are_the_store_without(self, subject: Subject) -> None:
        """It has the value last put into each window, in every read of many and of one."""

        def relation(trial: Trial) -> None:
            kind = _windows(trial)
            plain = trial.open("plain", specification=kind.probe())
            every = trial.open("every", specification=kind.duplicating())
            for batch in trial.batches():
                for store in (plain, every):
                    trial.write(store, _crowded(batch))
                    trial.commit(store)
            for read in kind.reads():
                if read.form is Form.ITERATOR:
                    last = trial.script.let("last", "last_of_each", trial.ask(every, read))
                    trial.answers(last, plain, read)
                elif read.form is Form.VALUE:
                    trial.answers(trial.ask(plain, read), every, read)

        subject.holds(relation)

    @pytest.mark.spec("WIN-21", "WIN-6", "COM-20")
    def test_only_the_order_of_sequences_counts(self, subject: Subject) -> None:
        """Changes with other numbers in the same order, or loaded in key order: it goes on."""

        def relation(trial: Trial) -> None:
            kind = _windows(trial)
            specification = kind.lasting(kind.duplicating())
            names = "store", "loaded", *(f"copy{at}" for at in range(len(_HIGHER_BY)))
            store, loaded, *copies = (
                trial.open(name, specification=specification) for name in names
            )
            batches = [_crowded(batch) for batch in trial.batches()]
            for changes in trial.live(store, batches):
                for by, copy in zip(_HIGHER_BY, copies, strict=True):
                    higher = trial.script.let("changes", "renumbered", changes, by)
                    trial.script.do(f"{copy}.replay", higher)
                    if trial.chance("commit"):
                        trial.commit(copy)
            for copy in copies:
                trial.agree(copy, store)
                trial.commit(copy)
            trial.script.do("load_content", loaded, store, 2, commit=trial.chance("commit"))
            more = [write for batch in trial.batches() for write in _crowded(batch)]
            trial.write_alike([store, loaded, *copies], more)
            for other in (loaded, *copies):
                trial.agree(other, store)

        subject.holds(relation)


class MergingRelationTests:
    """What the updates of many keys are: as many gets and puts."""

    @pytest.mark.spec("KVS-19", "KVS-20", "KVS-24", "TKV-8")
    def test_an_update_of_many_is_as_many_gets_and_puts(self, subject: Subject) -> None:
        """With other writes around it, rolled back or committed; and the same keys change."""

        def relation(trial: Trial) -> None:
            kind = trial.kind
            assert isinstance(kind, KeyValueKind)
            merged, single = trial.open("merged"), trial.open("single")
            for batch in trial.batches():
                columns = trial.data.draw(kind.merges(), label="columns")
                method = trial.data.draw(_MERGES, label="method")
                for store in (merged, single):
                    trial.write(store, batch)
                trial.script.do(f"{merged}.{method}", *columns)
                trial.script.do("merge_one_by_one", single, method, columns)
                trial.agree(merged, single)
                if trial.chance("roll back"):
                    for store in (merged, single):
                        trial.script.do(f"{store}.rollback")
                changes = [trial.script.value(trial.commit(store)) for store in (merged, single)]

                assert set(changes[0].keys) == set(changes[1].keys)
            trial.agree(merged, single)

        subject.holds(relation)


class SessionRelationTests:
    """What owners do with sessions: they merge them."""

    @pytest.mark.spec("SES-5", "SES-7")
    def test_sessions_that_were_merged_leave_their_union(self, subject: Subject) -> None:
        """Removed and put back as one, they leave what that one alone would have left."""

        def relation(trial: Trial) -> None:
            merging, merged = trial.open("merging"), trial.open("merged")
            for batch in trial.batches():
                for store in (merging, merged):
                    trial.write(store, batch)
                key = trial.data.draw(keys, label="key")
                value = trial.data.draw(_values, label="value")
                found = trial.data.draw(st.lists(sessions(), min_size=1, max_size=3))
                union = min(start for start, _ in found), max(end for _, end in found)
                removals = [Write("remove", (key, *session)) for session in found]
                trial.write(merging, [Write("put", (key, *each, b"part")) for each in found])
                if trial.chance("commit before the merge"):
                    trial.commit(merging)
                for store in (merging, merged):
                    trial.write(store, [*removals, Write("put", (key, *union, value))])
                    trial.commit(store)
            trial.agree(merging, merged)

        subject.holds(relation)


class TimeToLiveRelationTests:
    """What it means to expire."""

    @pytest.mark.spec("TTL-1", "TTL-2", "TTL-3", "KVS-2", "KVS-4")
    def test_what_has_expired_is_as_if_deleted(self, subject: Subject) -> None:
        """A store without a time to live, whose owner deletes what is too old, answers the same."""

        def relation(trial: Trial) -> None:
            kind = TimestampedKind()
            ttl_ms = kind.retention_ms(kind.probe())
            expiring = trial.open("expiring", specification=kind.probe())
            kept = trial.open("kept", specification=replace(kind.probe(), ttl_ms=None))
            for batch in trial.batches():
                for write in batch:
                    trial.write_alike([kept, expiring], [write])
                    now_ms = trial.script.value(expiring).stream_time_ms or 0
                    for key, stamped in list(trial.script.value(kept).range()):
                        if stamped.timestamp_ms + ttl_ms <= now_ms:
                            trial.write(kept, [Write("delete", (key,))])
                for store in (expiring, kept):
                    if trial.chance("commit"):
                        trial.commit(store)
            trial.agree(expiring, kept)
            trial.commit(expiring)
            trial.agree(expiring, kept)

        subject.holds(relation)

    @pytest.mark.spec("TTL-6", "TTL-2")
    def test_a_refresh_counts_wherever_it_stands(self, subject: Subject) -> None:
        """Put again before or after what makes it too old, in the same batch or in its own."""

        def relation(trial: Trial) -> None:
            specification = TimestampedKind().probe()
            names = "first", "last", "apart"
            stores = [trial.open(name, specification=specification) for name in names]
            for store, batches in zip(stores, [trial.batches()] * 3, strict=True):
                trial.live(store, batches)
            for round_number in range(1, 4):
                now_ms = 60 + 40 * round_number
                refreshed = trial.data.draw(st.sets(keys), label="put again")
                refresh = [Write("put", (key, b"again", now_ms - 10)) for key in sorted(refreshed)]
                others = [key for key in KEYS if key not in refreshed][:2]
                moves = [Write("put", (key, b"later", now_ms)) for key in others]
                trial.write(stores[0], [*refresh, *moves])
                trial.write(stores[1], [*moves, *refresh])
                for write in [*moves, *refresh]:
                    trial.write(stores[2], [write])
                    trial.commit(stores[2])
                for store in stores:
                    trial.commit(store)
                for store in stores[1:]:
                    trial.agree(store, stores[0])

        subject.holds(relation, times=3)


def _crowded(batch: Sequence[Write]) -> list[Write]:
    """Return the puts of *batch* with few keys and few windows, so that many are duplicates."""
    return [
        write._replace(arguments=(key[:1], value, start_ms - start_ms % 30))
        for write in batch
        for key, value, start_ms in [write.arguments]
        if value is not None
    ]


def _windows(trial: Trial) -> WindowKind:
    kind = trial.kind
    assert isinstance(kind, WindowKind)
    return kind
