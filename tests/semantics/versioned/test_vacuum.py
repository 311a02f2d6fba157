"""Expired versions go, a bounded number of rows with each commit."""

import pytest

import statestores as ss
from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.semantics.rows.layout import DATA, END, HISTORY
from statestores.semantics.rows.progress import Progress
from statestores.spi import Engine, WriteBatch
from statestores.spi.durability import Durability

RETENTION_MS = 1_000
SPECIFICATION = ss.Versioned("s", history_retention_ms=RETENTION_MS)


@pytest.fixture
def engine() -> Engine:
    """An engine in memory."""
    return load_backend("memory").open("unused")


def rows(engine: Engine, start: bytes, stop: bytes) -> int:
    """Count the rows of a namespace."""
    return sum(1 for _ in engine.scan(start, stop))


@pytest.mark.spec("VRS-14")
def test_space_stays_within_a_factor_of_what_is_live(engine: Engine) -> None:
    """After forty retentions the history holds less than twice what can still be read."""
    with open_on_engine(engine, SPECIFICATION) as store:
        for time_ms in range(40 * RETENTION_MS):
            store.put(b"key-%d" % (time_ms % 50), b"v", time_ms)
            if time_ms % 100 == 0:
                store.commit({})

                assert rows(engine, HISTORY, END) <= 2 * RETENTION_MS

        assert rows(engine, DATA, HISTORY) == 50


@pytest.mark.spec("VRS-15")
def test_the_vacuum_goes_on_after_reopening() -> None:
    """Its cursor is stored: opening the store for each commit does not begin anew."""
    engine = load_backend("memory").open("unused")
    time_ms = 0
    for _ in range(200):
        store = open_on_engine(engine, SPECIFICATION)
        for _ in range(100):
            store.put(b"key-%d" % (time_ms % 1_000), b"v", time_ms)
            time_ms += 1
        store.commit({})

        history = rows(engine, HISTORY, END)

    assert history <= 2 * RETENTION_MS


@pytest.mark.spec("VRS-15")
def test_a_commit_visits_a_bounded_number_of_history_rows(engine: Engine) -> None:
    """What expires at once, ten thousand rows, is deleted by later commits, a few with each."""
    with open_on_engine(engine, SPECIFICATION) as store:
        for number in range(10_000):
            store.put(b"key-%d" % number, b"old", 1)
            store.put(b"key-%d" % number, b"new", 2)
        store.commit({})
        store.put(b"clock", b"", 100 * RETENTION_MS)
        applied: list[WriteBatch] = []
        apply = engine.apply

        def record(batch: WriteBatch, durability: Durability) -> None:
            applied.append(dict(batch))
            apply(batch, durability)

        engine.apply = record  # type: ignore[method-assign]  # to see what a commit writes
        for number in range(100):
            store.put(b"clock", b"", 100 * RETENTION_MS + number)
            store.commit({})

        assert max(len(batch) for batch in applied) < 100


@pytest.mark.spec("VRS-15")
def test_what_is_written_behind_a_running_pass_is_known_to_the_next() -> None:
    """The pass does not come by it any more, and ended with a floor above it: it was never removed.

    Until something else was written that ends as early.
    """
    progress = Progress(floor_ms=5, cursor=HISTORY + b"m")
    progress.lower(50)
    progress.cursor = HISTORY  # the pass has come to the end

    assert progress.end_walk(HISTORY, progress.pass_floor_ms)
    assert progress.floor_ms == 50


@pytest.mark.spec("VRS-14")
def test_a_version_that_was_put_late_goes_when_it_has_expired(engine: Engine) -> None:
    """It is all that can expire in this store.

    A mutant noted no end of what is put late, so no pass began, and the version stayed for ever.
    """
    with open_on_engine(engine, SPECIFICATION) as store:
        store.put(b"k", b"latest", 100)
        store.commit({})
        store.put(b"k", b"late", 50)
        store.commit({})
        assert rows(engine, HISTORY, END) == 1
        for number in range(200):  # so many that rows are looked at
            store.put(b"clock %d" % number, b"", 10 * RETENTION_MS)
        store.commit({})

        assert rows(engine, HISTORY, END) == 0


@pytest.mark.spec("VRS-6", "VRS-14")
def test_a_deletion_at_time_0_takes_no_other_version_with_it(engine: Engine) -> None:
    """Of one commit they end at 0 and at 100, and each goes at its own time.

    A mutant took the deletion, whose row is the lowest of its kind, for a value: the version that
    ends at 100 was removed when the horizon was at 50.
    """
    with open_on_engine(engine, SPECIFICATION) as store:
        store.delete(b"first", 0)
        store.put(b"clock", b"", RETENTION_MS)
        store.commit({})  # something expires: from now on it is remembered what will
        store.delete(b"deleted", 0)
        store.put(b"k", b"old", 0)
        store.put(b"k", b"new", 100)
        store.commit({})
        store.put(b"clock", b"", RETENTION_MS + 50)
        store.commit({})

        assert store.read_only().get(b"k", 60) == (b"old", 0, 100)


@pytest.mark.spec("VRS-8", "VRS-14")
def test_a_value_in_the_place_of_a_deletion_never_expires(engine: Engine) -> None:
    """It has the time of the deletion, whose marker goes with it: also if a late put comes along.

    A mutant left the marker then. Once that had expired, the value went as what it had stood for.
    """
    with open_on_engine(engine, SPECIFICATION) as store:
        store.delete(b"k", 100)
        store.put(b"clock", b"", 200)
        store.commit({})
        store.put(b"k", b"late", 50)
        store.put(b"k", b"value", 100)
        store.commit({})
        for number in range(500):
            store.put(b"clock %d" % (number % 50), b"", 10 * RETENTION_MS + number)
            store.commit({})

        assert store.read_only().get(b"k") == (b"value", 100, None)


@pytest.mark.spec("VRS-14")
def test_a_version_that_ends_at_the_horizon_is_not_written(engine: Engine) -> None:
    """Nobody can read it any more, so the vacuum has one row less to find."""
    with open_on_engine(engine, SPECIFICATION) as store:
        store.put(b"k", b"ended", 10)
        store.put(b"k", b"latest", 20)
        store.put(b"clock", b"", 20 + RETENTION_MS)
        store.commit({})

        assert rows(engine, HISTORY, END) == 0
        assert store.read_only().get(b"k") == (b"latest", 20, None)


def test_markers_that_are_gone_are_not_remembered(engine: Engine) -> None:
    """The memory of a store in which keys come and go: a mutant kept the key of each."""
    with open_on_engine(engine, SPECIFICATION) as store:
        for number in range(200):
            store.put(b"%d" % number, b"v", number * RETENTION_MS)
            store.delete(b"%d" % number, number * RETENTION_MS + 1)
            store.commit({})

        assert len(store._vacuum._bare) < 20


@pytest.mark.spec("VRS-8")
def test_a_latest_value_never_expires(engine: Engine) -> None:
    """However far stream time moves on, the latest value of a key stays."""
    with open_on_engine(engine, SPECIFICATION) as store:
        store.put(b"old", b"value", 5)
        for number in range(500):
            store.put(b"clock", b"", number * RETENTION_MS)
            store.commit({})

        assert store.get(b"old") == (b"value", 5, None)


@pytest.mark.spec("VRS-14")
def test_a_deletion_goes_once_no_older_put_can_come(engine: Engine) -> None:
    """A latest deletion is kept as long as it can be late for somebody, and then leaves no row."""
    with open_on_engine(engine, SPECIFICATION) as store:
        store.put(b"gone", b"value", 5)
        store.put(b"gone", None, 10)
        store.commit({})
        store.put(b"clock", b"", 10 + RETENTION_MS)
        store.commit({})

        assert store.put(b"gone", b"late", 10 + RETENTION_MS - 995).valid_to_ms is None
        store.rollback()
        for number in range(200):
            store.put(b"clock", b"", 3 * RETENTION_MS + number)
            store.commit({})

        assert rows(engine, DATA + b"gone", DATA + b"gone\x00") == 0
        assert rows(engine, HISTORY + b"gone", HISTORY + b"gonf") == 0
