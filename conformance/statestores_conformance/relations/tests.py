"""The metamorphic relations as tests, the same for every kind of store.

Each says that two ways lead to the same store, or that two reads give the same result; none says
what that is, so none can share a mistake with a model.
"""

import pytest

from statestores.spi import Durability
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.relations import Subject, Trial
from statestores_conformance.relations.trials import REFERENCE
from statestores_conformance.scripts.script import Name


class WritingRelationTests:
    """Different ways to the same content."""

    @pytest.mark.spec("COM-1", "COM-24", "VRS-17", "WIN-16", "SES-16", "TTL-2")
    def test_any_split_of_a_batch_is_one_batch(self, subject: Subject) -> None:
        """No read can tell where commits came between the writes."""

        def relation(trial: Trial) -> None:
            split, whole = trial.open("split"), trial.open("whole")
            for batch in trial.batches():
                for write in batch:
                    trial.write(split, [write])
                    if trial.chance("commit"):
                        trial.commit(split)
                    trial.write(whole, [write])
            trial.commit(split)
            trial.agree(whole, split)
            trial.commit(whole)
            trial.agree(whole, split)

        subject.holds(relation)

    @pytest.mark.spec("KVS-15", "VRS-18", "WIN-7", "SES-6")
    def test_columns_are_their_rows(self, subject: Subject) -> None:
        """Writing many at once is writing one after the other."""

        def relation(trial: Trial) -> None:
            columns, rows = trial.open("columns"), trial.open("rows")
            for batch in trial.batches():
                trial.write(rows, batch)
                trial.write(columns, trial.kind.as_columns(batch))
                trial.commit(rows)
                trial.commit(columns)
            trial.agree(columns, rows)

        subject.holds(relation)

    @pytest.mark.spec("COM-7")
    def test_what_is_rolled_back_was_never_written(self, subject: Subject) -> None:
        """Writes and a rollback, at any place, leave no trace that a later commit could show."""

        def relation(trial: Trial) -> None:
            straight, detour = trial.open("straight"), trial.open("detour")
            for batch in trial.batches():
                trial.write(detour, trial.batch())
                trial.script.do(f"{detour}.rollback")
                for store in (straight, detour):
                    trial.write(store, batch)
                    trial.commit(store)
            trial.agree(detour, straight)

        subject.holds(relation)

    @pytest.mark.spec("COM-12")
    def test_durability_changes_no_answer(self, subject: Subject) -> None:
        """What a commit waits for is not seen by any read."""

        def relation(trial: Trial) -> None:
            waiting, hasty = trial.open("waiting"), trial.open("hasty")
            for batch in trial.batches():
                for store in (waiting, hasty):
                    trial.write(store, batch)
                trial.commit(waiting)
                trial.commit(hasty, durability=Durability.PROCESS_CRASH)
            trial.agree(hasty, waiting)

        subject.holds(relation)

    @pytest.mark.spec("KVS-7", "KVS-12", "VRS-10", "VRS-12", "WIN-11", "SES-11", "TTL-2")
    def test_every_answer_is_the_memory_engines(self, subject: Subject) -> None:
        """All engines give one store: pending, committed and, if they persist, reopened."""

        def relation(trial: Trial) -> None:
            tried, reference = trial.open("tried"), trial.open("reference", REFERENCE)
            for batch in trial.batches():
                for store in (tried, reference):
                    trial.write(store, batch)
                if trial.chance("compare before the commit"):
                    trial.agree(tried, reference)
                trial.commit(tried)
                trial.commit(reference)
            trial.agree(tried, reference)
            if subject.persistent:
                trial.script.do(f"{tried}.close")
                trial.agree(trial.open("tried"), reference)

        subject.holds(relation)

    @pytest.mark.spec("COM-1", "COM-8", "VRS-13", "WIN-17", "SES-17")
    def test_reopening_changes_no_answer(self, subject: Subject) -> None:
        """Closed with writes pending and opened again: as it was after the last commit."""
        skip_unless_promised("persistent", made=subject.persistent)

        def relation(trial: Trial) -> None:
            store = trial.open("store")
            trial.live(store, trial.batches())
            before = trial.all_answers(store)
            trial.write(store, trial.batch())
            trial.script.do(f"{store}.close")
            reopened = trial.open("store")
            for read, expected in before:
                trial.answers(expected, reopened, read)

        subject.holds(relation)


class ReplayRelationTests:
    """Changes, content, and the store that they give."""

    @pytest.mark.spec("COM-17", "COM-29")
    def test_replaying_the_changes_gives_the_store(self, subject: Subject) -> None:
        """All changes in one batch, or with commits anywhere between."""

        def relation(trial: Trial) -> None:
            store, whole, parts = trial.open("store"), trial.open("whole"), trial.open("parts")
            log = trial.live(store, trial.batches())
            trial.replay(whole, log)
            for changes in log:
                trial.replay(parts, [changes])
            trial.agree(whole, store)
            trial.agree(parts, store)

        subject.holds(relation)

    @pytest.mark.spec("COM-32")
    def test_replaying_twice_is_replaying_once(self, subject: Subject) -> None:
        """Even when the second time comes after a commit, and onto the store itself."""

        def relation(trial: Trial) -> None:
            store, copy = trial.open("store"), trial.open("copy")
            log = trial.live(store, trial.batches())
            before = trial.all_answers(store)
            trial.replay(copy, log)
            trial.replay(copy, log)
            trial.replay(store, log)
            for read, expected in before:
                trial.answers(expected, copy, read)
                trial.answers(expected, store, read)

        subject.holds(relation)

    @pytest.mark.spec("COM-17", "COM-31")
    def test_a_compacted_log_is_the_whole_log(self, subject: Subject) -> None:
        """Without what later changes make void, and what has expired, replay gives the same."""

        def relation(trial: Trial) -> None:
            store, copy = trial.open("store"), trial.open("copy")
            log = trial.live(store, trial.batches())
            changes = [trial.script.value(name) for name in log]
            compacted = trial.kind.compacted(changes, trial.specification)
            trial.script.do(f"{copy}.replay", compacted)
            trial.script.do(f"{copy}.commit", {})
            trial.agree(copy, store)

        subject.holds(relation)

    @pytest.mark.spec("COM-20", "COM-17")
    def test_content_and_tail_are_the_whole(self, subject: Subject) -> None:
        """What was committed in the middle, then the changes since, give the store."""

        def relation(trial: Trial) -> None:
            store, copy = trial.open("store"), trial.open("copy")
            trial.live(store, trial.batches())
            trial.script.do("load_content", copy, store, 3, commit=trial.chance("commit"))
            tail = trial.live(store, trial.batches())
            trial.replay(copy, tail)
            trial.agree(copy, store)

        subject.holds(relation)

    @pytest.mark.spec("COM-17", "COM-20", "COM-40", "WIN-21")
    def test_a_restored_store_goes_on_as_the_original(self, subject: Subject) -> None:
        """The same writes are accepted and answered, whether it was replayed or loaded."""

        def relation(trial: Trial) -> None:
            store, replayed, loaded = trial.open("store"), trial.open("one"), trial.open("other")
            trial.replay(replayed, trial.live(store, trial.batches()))
            trial.script.do("load_content", loaded, store, 3, commit=trial.chance("commit"))
            stores = store, replayed, loaded
            for batch in trial.batches():
                trial.write_alike(stores, batch)
                for each in stores:
                    trial.commit(each)
            trial.agree(replayed, store)
            trial.agree(loaded, store)

        subject.holds(relation, times=3)

    @pytest.mark.spec("COM-20", "COM-36")
    def test_content_is_the_store_whatever_is_pending(self, subject: Subject) -> None:
        """An export while writes are pending is the export without them."""

        def relation(trial: Trial) -> None:
            store, copy = trial.open("store"), trial.open("copy")
            trial.live(store, trial.batches())
            before = trial.all_answers(store)
            trial.write(store, trial.batch())
            trial.script.do("load_content", copy, store, 2, commit=False)
            for read, expected in before:
                trial.answers(expected, copy, read)

        subject.holds(relation)


def _filled(trial: Trial) -> list[Name]:
    """Return names to read from: an owner with pending writes, and both of its facades."""
    store = trial.open("store")
    trial.live(store, trial.batches())
    trial.write(store, trial.batch())
    levels = ("read_committed", "read_uncommitted")
    facades = [trial.script.let("facade", f"{store}.read_only", level) for level in levels]
    return [store, *facades]


class ReadingRelationTests:
    """Different reads of the same content, pending or committed."""

    @pytest.mark.spec("KVS-8", "VRS-10", "VRS-12", "WIN-12", "SES-13")
    def test_reverse_is_reversed(self, subject: Subject) -> None:
        """Every iteration gives the same in the other direction."""

        def relation(trial: Trial) -> None:
            for reader in _filled(trial):
                for read in trial.kind.iterations():
                    forward = trial.ask(reader, read)
                    backward = trial.script.let("backward", "backwards", forward)
                    trial.answers(backward, reader, read, reverse=True)

        subject.holds(relation)

    @pytest.mark.spec("KVS-7", "VRS-10", "VRS-12", "WIN-10", "WIN-11", "SES-11", "SES-12")
    def test_parts_of_a_range_make_up_the_range(self, subject: Subject) -> None:
        """Wherever it is cut, the parts together have what the whole has."""

        def relation(trial: Trial) -> None:
            for reader in _filled(trial):
                for split in trial.kind.splits():
                    parts = [trial.ask(reader, part) for part in split.parts]
                    union = trial.script.let("union", split.union, parts)
                    trial.answers(union, reader, split.whole)

        subject.holds(relation)

    @pytest.mark.spec("VRS-8", "VRS-21", "KVS-9", "WIN-10", "WIN-11", "SES-10", "SES-11", "SES-12")
    def test_reads_that_ask_for_the_same_are_answered_alike(self, subject: Subject) -> None:
        """As of stream time or later, over every key, over all times: all give what there is."""

        def relation(trial: Trial) -> None:
            for reader in _filled(trial):
                now = getattr(trial.script.value(reader), "stream_time_ms", None)
                for alike in trial.kind.same_now(now):
                    trial.are_alike(reader, reader, alike)

        subject.holds(relation)

    @pytest.mark.spec("KVS-5", "VRS-9", "VRS-10", "VRS-12", "WIN-9", "SES-9", "TKV-1")
    @pytest.mark.spec("KVS-6", "VRS-23", "WIN-24", "SES-23")
    def test_a_point_is_where_an_iteration_has_it(self, subject: Subject) -> None:
        """A read of one row gives what an iteration over it gives, or nothing if it gives none.

        A read of many keys gives what reads of each give.
        """

        def relation(trial: Trial) -> None:
            for reader in _filled(trial):
                for alike in trial.kind.points():
                    trial.are_alike(reader, reader, alike)
                for columns in trial.kind.columns():
                    singles = [trial.ask(reader, single) for single in columns.parts]
                    trial.answers(singles, reader, columns.whole)

        subject.holds(relation)

    @pytest.mark.spec("ROF-7", "ROF-8", "ROF-2")
    def test_facades_see_what_the_owner_sees(self, subject: Subject) -> None:
        """Read uncommitted always, read committed after the commit; before that, the last one."""

        def relation(trial: Trial) -> None:
            store = trial.open("store")
            committed = trial.script.let("facade", f"{store}.read_only")
            uncommitted = trial.script.let("facade", f"{store}.read_only", "read_uncommitted")
            trial.live(store, trial.batches())
            trial.agree(committed, store)
            before = trial.all_answers(store)
            trial.write(store, trial.batch())
            trial.agree(uncommitted, store)
            for read, expected in before:
                trial.answers(expected, committed, read)
            trial.commit(store)
            trial.agree(committed, store)
            trial.agree(uncommitted, store)

        subject.holds(relation)
