"""What a failed commit was to remove, its repetition or a later one removes."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

import statestores as ss
from statestores import semantics
from statestores.errors import StorageError
from statestores.semantics import open_on_engine
from statestores.semantics.every_kind.sorted_rows import SortedRows
from statestores.semantics.rows.layout import DATA, END, HISTORY
from statestores.spi import Durability, WriteBatch
from statestores_conformance.engine.interruption import interrupt
from statestores_conformance.subjects.faulty_engine import Fault, FaultyEngine, Moment
from statestores_memory import MemoryEngine

RETENTION_MS = 300
_COMMIT_ROWS = 10
KINDS: list[Any] = [
    ss.Versioned("s", history_retention_ms=RETENTION_MS),
    ss.Window("s", window_size_ms=10, retention_ms=RETENTION_MS),
    ss.Session("s", retention_ms=RETENTION_MS),
]


class RefusesFirst(MemoryEngine):
    """An engine that refuses deletions, once it is short of room, unless it has just done so."""

    is_short = False
    refused = 0
    _is_second = False

    def apply(self, batch: WriteBatch, durability: Durability) -> None:
        """Apply *batch*, or fail."""
        deletes = None in batch.values()
        if self.is_short and deletes and not self._is_second:
            self._is_second = True
            self.refused += 1
            raise StorageError("no room")
        super().apply(batch, durability)
        self._is_second = False

    def rows(self) -> list[tuple[bytes, bytes | None]]:
        """Return all rows but those about the store itself."""
        return list(self.scan(DATA, END))


def put(store: Any, specification: Any, number: int, time_ms: int) -> None:
    """Put a row of its own for the time."""
    if specification.kind == "session":
        store.put(b"%d" % (number % 9), time_ms, time_ms, b"v")
    else:
        store.put(b"%d" % (number % 9), b"v", time_ms)


def commit_until_it_is_there(store: Any) -> None:
    """Commit, and repeat it once if that fails."""
    try:
        store.commit({})
    except StorageError:
        store.commit({})


@pytest.mark.spec("VRS-14", "WIN-18", "SES-18")
def test_what_was_loaded_expired_goes_though_commits_fail(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    """Rows loaded in bulk expired, and the commit to remove them failed.

    The number of rows to remove was forgotten with it: the restore that waited for the removal
    took it for done. Of 20,060 rows of windows all stayed, and after three more retentions 12,944,
    where 1,080 were visible.
    """
    for specification in KINDS:
        with subtests.test(str(specification.kind)):
            source = RefusesFirst.open(tmp_path / f"{specification.kind}-source")
            with open_on_engine(source, specification) as store:
                for time_ms in range(RETENTION_MS):
                    put(store, specification, time_ms, time_ms)
                store.commit({})
                loaded = source.rows()
            engine = RefusesFirst.open(tmp_path / specification.kind)
            with open_on_engine(engine, specification) as store:
                bulk = SortedRows(
                    rows=loaded,
                    lowest_ms=0,
                    highest_ms=9 * RETENTION_MS,
                    removals=2 * len(loaded),
                )
                store.commit_rows(bulk, {})
                engine.is_short = True
                while store.owes_removals:
                    commit_until_it_is_there(store)

                assert engine.refused == 1
                assert len(engine.rows()) == (9 if specification.kind == "versioned" else 0)


@pytest.mark.spec("VRS-14")
def test_rows_that_were_not_loaded_owe_nothing(subtests: pytest.Subtests, tmp_path: Path) -> None:
    """Rows loaded in bulk that never got there had the next commits look for what had expired.

    Those that raised and are there are owed for, and once.
    """
    bulk = SortedRows(lowest_ms=0, highest_ms=9 * RETENTION_MS, removals=7)
    for moment in Moment:
        with subtests.test(moment=moment):
            engine = FaultyEngine(MemoryEngine.open(tmp_path / moment.value))
            with open_on_engine(engine, KINDS[0]) as store:
                engine.plan(Fault(call="apply", at=1, moment=moment))
                with pytest.raises(StorageError):
                    store.commit_rows(bulk, {})

                assert store._vacuum.owed == (7 if moment is Moment.AFTER else 0)
                store.commit_rows(bulk, {})
                assert store._vacuum.owed == (14 if moment is Moment.AFTER else 7)


@pytest.mark.spec("VRS-14")
def test_a_vacuum_whose_commits_fail_looks_again(tmp_path: Path) -> None:
    """It looks at rows with one in eleven small commits, and each of these failed at first.

    The repetition had nothing left to look at rows with, and deleted none: all rows stayed for ever
    though every commit came about in the end.
    """
    engine = RefusesFirst.open(tmp_path)
    engine.is_short = True
    with open_on_engine(engine, KINDS[0]) as store:
        for time_ms in range(6 * RETENTION_MS):
            put(store, KINDS[0], time_ms, time_ms)
            commit_until_it_is_there(store)

        assert engine.refused > 0
        assert len(engine.rows()) <= 2 * RETENTION_MS


@pytest.mark.spec("TTL-8")
def test_keys_expire_though_commits_fail(subtests: pytest.Subtests, tmp_path: Path) -> None:
    """Each commit that was to delete something failed at first, and was repeated.

    The next sweep began where the one before it had begun, and met rows that lived: it never got
    past them. Of 20,000 rows that came once 16,058 stayed, where about 1,000 lived. After a
    rollback, what small commits had added up to look at rows with was gone, and none was deleted.
    """
    specification = ss.TimestampedKeyValue("s", ttl_ms=RETENTION_MS)
    for is_rolled_back in (False, True):
        with subtests.test(is_rolled_back=is_rolled_back):
            dice = Random(7)
            engine = RefusesFirst.open(tmp_path)
            engine.is_short = True
            with open_on_engine(engine, specification) as store:
                for first_ms in range(0, 6 * RETENTION_MS, _COMMIT_ROWS):
                    keys = [dice.randbytes(8) for _ in range(_COMMIT_ROWS)]
                    times = range(first_ms, first_ms + _COMMIT_ROWS)
                    store.put_many(keys, keys, times)
                    try:
                        store.commit({})
                    except StorageError:
                        if is_rolled_back:
                            store.rollback()
                            store.put_many(keys, keys, times)
                        store.commit({})

                assert engine.refused > 0
                assert len(engine.rows()) <= 1.3 * RETENTION_MS


@pytest.mark.spec("TTL-8")
def test_keys_expire_though_a_sweep_is_interrupted(tmp_path: Path) -> None:
    """Ctrl-C in `pending_changes`, between what is known to have expired and its deletion.

    Those keys were known to expire, so that no sweep looked for them, and in no bucket any more: of
    ten commits' worth of rows, the rows of up to four stayed for as long as the store was open.
    """
    specification = ss.TimestampedKeyValue("s", ttl_ms=RETENTION_MS)
    home = str(Path(semantics.__file__).parent)
    for line in range(30, 250, 70):
        dice = Random(3)
        engine = MemoryEngine.open(tmp_path)
        with open_on_engine(engine, specification) as store:
            for time_ms in range(900):
                store.put(dice.randbytes(3), b"v", time_ms)
                if time_ms < 700 and time_ms % 60 == 59:
                    store.commit({})
            assert interrupt(store.pending_changes, home, line)
            for time_ms in range(900, 2_400, 20):
                store.put(b"clock", b"v", time_ms)
                store.commit({})

            assert dict(engine.scan(DATA, HISTORY)).keys() == {DATA + b"clock"}
