"""Snapshots: frozen, usable elsewhere, closed by their takers."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from statestores.errors import StoreClosedError
from statestores.spi import Durability, Engine
from statestores_conformance.subjects.engines import EngineFixtures, pairs_of

_AB = [(b"a", b"1"), (b"b", b"2")]


class EngineSnapshotTests(EngineFixtures):
    """What a snapshot sees, and for how long."""

    @pytest.fixture
    def ab(self, engine: Engine) -> Engine:
        """Give an engine that holds a and b."""
        engine.apply(dict(_AB), Durability.PROCESS_CRASH)
        return engine

    @pytest.mark.spec("ENG-9")
    def test_a_snapshot_answers_as_the_engine_did(self, ab: Engine) -> None:
        """Every kind of read sees the moment of the call, whatever is applied afterwards."""
        with ab.snapshot() as snapshot:
            ab.apply({b"a": None, b"b": b"new", b"c": b"new"}, Durability.PROCESS_CRASH)

            assert snapshot.get(b"a") == b"1"
            assert snapshot.get(b"c") is None
            assert snapshot.get_many([b"c", b"b", b"a", b"b"]) == [None, b"2", b"1", b"2"]
            assert snapshot.first(b"") == _AB[0]
            assert snapshot.first(b"b", b"c") == _AB[1]
            assert snapshot.last(b"") == _AB[1]
            assert snapshot.last(b"", b"b") == _AB[0]
            assert list(snapshot.scan(b"")) == _AB
            assert list(snapshot.scan(b"", reverse=True)) == _AB[::-1]
            assert list(snapshot.scan(b"a", b"b")) == _AB[:1]
            assert list(snapshot.scan(b"b", b"a")) == []

    @pytest.mark.spec("ENG-8", "ENG-9")
    def test_what_a_snapshot_has_read_is_not_the_engine_s(self, ab: Engine) -> None:
        """Reads of the two in turn, each of which may remember what it found, do not mix."""
        keys = [b"a", b"b", b"c"]
        with ab.snapshot() as snapshot:
            ab.apply({b"a": None, b"b": b"new", b"c": b"new"}, Durability.PROCESS_CRASH)
            for _ in range(2):
                assert [snapshot.get(key) for key in keys] == [b"1", b"2", None]
                assert [ab.get(key) for key in keys] == [None, b"new", b"new"]
                assert snapshot.get_many(keys) == [b"1", b"2", None]
                assert ab.get_many(keys) == [None, b"new", b"new"]

    @pytest.mark.spec("ENG-9")
    def test_a_snapshot_of_nothing_stays_empty(self, engine: Engine) -> None:
        """Taken before the first batch, a snapshot never sees one."""
        with engine.snapshot() as snapshot:
            engine.apply({b"k": b"v"}, Durability.PROCESS_CRASH)

            assert pairs_of(snapshot) == []

    @pytest.mark.spec("ENG-9")
    def test_each_snapshot_has_its_own_moment(self, engine: Engine) -> None:
        """Many snapshots stay open together, and each keeps what it saw."""
        snapshots = []
        for number in range(20):
            engine.apply({b"k": b"%d" % number}, Durability.PROCESS_CRASH)
            snapshots.append(engine.snapshot())
        seen = [snapshot.get(b"k") for snapshot in snapshots]
        for snapshot in snapshots:
            snapshot.close()

        assert seen == [b"%d" % number for number in range(20)]

    @pytest.mark.spec("ENG-9")
    def test_a_snapshot_can_be_read_in_another_thread(self, ab: Engine) -> None:
        """Another thread may read and close a snapshot that one thread took."""
        snapshot = ab.snapshot()
        with ThreadPoolExecutor(1) as elsewhere:
            seen = elsewhere.submit(pairs_of, snapshot)
            ab.apply({b"a": None}, Durability.PROCESS_CRASH)

            assert seen.result() == _AB
            elsewhere.submit(snapshot.close).result()

    @pytest.mark.spec("ENG-9")
    def test_a_scan_of_a_snapshot_can_be_held(self, ab: Engine) -> None:
        """A scan that was begun on a snapshot goes on despite later batches."""
        with ab.snapshot() as snapshot:
            scan = snapshot.scan(b"")
            first = next(scan)
            ab.apply({b"b": None, b"c": b"3"}, Durability.PROCESS_CRASH)

            assert [first, *scan] == _AB

    @pytest.mark.spec("ENG-22")
    def test_a_closed_snapshot_refuses_every_read(self, ab: Engine) -> None:
        """Reads on a closed snapshot raise; they do not fall through to the engine.

        Nor do they go on with what the same reads have left in it before.
        """
        snapshot = ab.snapshot()
        assert [snapshot.first(b""), snapshot.last(b"")] == _AB
        snapshot.close()
        for read in (
            lambda: snapshot.get(b"a"),
            lambda: snapshot.get_many([b"a"]),
            lambda: snapshot.first(b""),
            lambda: snapshot.last(b""),
            lambda: next(snapshot.scan(b"")),
        ):
            with pytest.raises(StoreClosedError):
                read()

    @pytest.mark.spec("ENG-40")
    def test_a_scan_of_a_closed_snapshot_does_not_look_complete(self, engine: Engine) -> None:
        """A scan that was begun, or only called, raises at its next step; the engine goes on."""
        pairs = [(b"%05d" % number, b"v") for number in range(3_000)]
        engine.apply(dict(pairs), Durability.PROCESS_CRASH)
        snapshot = engine.snapshot()
        called, begun = (
            [snapshot.scan(b"", reverse=reverse) for reverse in (False, True)] for _ in range(2)
        )
        for scan in begun:
            next(scan)
        snapshot.close()
        for scan in (*called, *begun):
            with pytest.raises(StoreClosedError):
                next(scan)

        assert pairs_of(engine) == pairs

    @pytest.mark.spec("ENG-9")
    def test_a_snapshot_is_closed_once(self, ab: Engine) -> None:
        """Closing again is not an error, and the engine goes on."""
        snapshot = ab.snapshot()
        snapshot.close()
        snapshot.close()

        assert pairs_of(ab) == _AB

    @pytest.mark.spec("ENG-22")
    def test_a_snapshot_closes_itself_at_the_end_of_its_block(self, ab: Engine) -> None:
        """A snapshot is a context manager."""
        with ab.snapshot() as snapshot:
            assert snapshot.get(b"a") == b"1"
        with pytest.raises(StoreClosedError):
            snapshot.get(b"a")
