"""What a late put has sought, its commit does not seek again; and nothing is remembered longer."""

from pathlib import Path

import statestores as ss
from statestores.semantics import open_on_engine
from statestores.semantics.versioned.remembered_seeks import MOST_BYTES, RememberedSeeks
from statestores.spi import Durability, EngineReader
from statestores_memory import MemoryEngine


class CountedSeeks(MemoryEngine):
    """An engine that counts the calls of `first` and `last`."""

    seeks = 0
    seeks_back = 0

    def first(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        """Find the first row, and count."""
        self.seeks += 1
        return super().first(start, stop)

    def last(self, start: bytes, stop: bytes | None = None) -> tuple[bytes, bytes] | None:
        """Find the last row, and count."""
        self.seeks_back += 1
        return super().last(start, stop)


def filled(path: Path, value: bytes = b"v") -> CountedSeeks:
    """Return an engine with two rows."""
    engine = CountedSeeks.open(path)
    engine.apply({b"b": value, b"d": value}, Durability.PROCESS_CRASH)
    return engine


def all_reads(reader: EngineReader) -> list[object]:
    """Return what the reads that remember nothing find."""
    return [
        reader.get(b"b"),
        reader.get_many([b"d", b"x"]),
        list(reader.scan(b"", reverse=True)),
    ]


def test_a_seek_is_done_once(tmp_path: Path) -> None:
    """Also one that finds nothing."""
    with filled(tmp_path) as engine:
        seeks = RememberedSeeks(engine)
        found = [seeks.first(start) for start in (b"a", b"c", b"e") * 2]

        assert found == [(b"b", b"v"), (b"d", b"v"), None] * 2
        assert engine.seeks == 3

        found = [seeks.last(b"", stop) for stop in (b"c", None, b"a") * 2]

        assert found == [(b"b", b"v"), (b"d", b"v"), None] * 2
        assert engine.seeks_back == 3


def test_what_is_forgotten_is_sought_again(tmp_path: Path) -> None:
    """The engine may have other rows by then."""
    with filled(tmp_path) as engine:
        seeks = RememberedSeeks(engine)
        seeks.first(b"a")
        seeks.last(b"a", b"b")
        engine.apply({b"a": b"new"}, Durability.PROCESS_CRASH)
        seeks.forget()

        assert seeks.first(b"a") == seeks.last(b"a", b"b") == (b"a", b"new")


def test_large_rows_are_not_hoarded(tmp_path: Path) -> None:
    """Beyond a number of bytes a seek is done each time."""
    with filled(tmp_path, b"v" * MOST_BYTES) as engine:
        seeks = RememberedSeeks(engine)
        for start in (b"a", b"c", b"c", b"a"):
            seeks.first(start)
            seeks.last(b"", start)

        assert engine.seeks == 3
        assert engine.seeks_back == 4


def test_the_other_reads_are_the_readers_own(tmp_path: Path) -> None:
    """Point reads and scans pass through."""
    with filled(tmp_path) as engine:
        assert all_reads(RememberedSeeks(engine)) == all_reads(engine)


def test_a_late_put_and_its_commit_seek_once(tmp_path: Path) -> None:
    """The version before a late one is found at the put, and ended at the commit."""
    engine = CountedSeeks.open(tmp_path)
    specification = ss.Versioned("prices", history_retention_ms=1_000)
    with open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH) as store:
        for timestamp_ms in (10, 20, 30):
            store.put(b"k", b"%d" % timestamp_ms, timestamp_ms)
            store.commit({})
        engine.seeks = 0
        assert store.put(b"k", b"late", 15).valid_to_ms == 20
        store.commit({})

        assert engine.seeks == 1
        assert [(found.value, found.valid_to_ms) for found in store.history(b"k")] == [
            (b"10", 15),
            (b"late", 20),
            (b"20", 30),
            (b"30", None),
        ]


def test_before_all_others_they_seek_back_once(tmp_path: Path) -> None:
    """No version is valid then, and the next one is sought in the other direction."""
    engine = CountedSeeks.open(tmp_path)
    specification = ss.Versioned("prices", history_retention_ms=1_000)
    with open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH) as store:
        for timestamp_ms in (20, 30):
            store.put(b"k", b"%d" % timestamp_ms, timestamp_ms)
            store.commit({})
        engine.seeks = engine.seeks_back = 0
        assert store.put(b"k", b"late", 10).valid_to_ms == 20
        store.commit({})

        assert (engine.seeks, engine.seeks_back) == (1, 1)
        assert [(found.value, found.valid_to_ms) for found in store.history(b"k")] == [
            (b"late", 20),
            (b"20", 30),
            (b"30", None),
        ]


def test_a_late_put_after_a_commit_and_after_a_rollback_sees_what_is_there(tmp_path: Path) -> None:
    """The same time again: what was found before has been replaced, or was never written."""
    specification = ss.Versioned("prices", history_retention_ms=1_000)
    engine = CountedSeeks.open(tmp_path)
    with open_on_engine(engine, specification, durability=Durability.PROCESS_CRASH) as store:
        store.put(b"k", b"10", 10)
        store.put(b"k", b"30", 30)
        store.commit({})
        assert store.put(b"k", b"20", 20).valid_to_ms == 30
        store.rollback()
        assert store.put(b"k", b"15", 15).valid_to_ms == 30
        store.commit({})
        assert store.put(b"k", b"12", 12).valid_to_ms == 15
        store.commit({})
        store.truncate()
        store.put(b"k", b"40", 40)
        store.commit({})
        assert store.put(b"k", b"12", 12).valid_to_ms == 40
        store.commit({})

        assert [(found.valid_from_ms, found.valid_to_ms) for found in store.history(b"k")] == [
            (12, 40),
            (40, None),
        ]


def test_what_was_forgotten_takes_no_memory(tmp_path: Path) -> None:
    """The next commit remembers as much as the one before; it had remembered nothing any more."""
    with filled(tmp_path, b"v" * (MOST_BYTES // 2)) as engine:
        seeks = RememberedSeeks(engine)
        for commit in range(4):
            found = [seeks.first(start) for start in (b"a", b"c") * 2]

            assert found[:2] == found[2:]
            assert engine.seeks == 2 * (commit + 1)
            seeks.forget()
