"""Capabilities, in both directions: what is declared works, what is not is refused."""

import random
import shutil
from collections.abc import Iterator
from operator import eq
from pathlib import Path
from typing import Any

import pytest

from statestores.errors import (
    CapabilityNotSupportedError,
    InvalidArgumentError,
    StateStoreError,
    StoreClosedError,
    StoreCorruptedError,
)
from statestores.spi import Capabilities, Durability, Engine
from statestores_conformance.engine.disk.process_limits import file_size
from statestores_conformance.engine.reading.many_rows import SIZES_AROUND_EDGES
from statestores_conformance.intensity import seed
from statestores_conformance.many_cases import for_each
from statestores_conformance.promises import skip_because_promised, skip_unless_promised
from statestores_conformance.subjects.engines import EngineFixtures, Engines, OpenEngine, pairs_of

_SEED = seed(20261127)
_LARGE_PAIRS, _LARGE_BYTES = 4_200, 16 * 1024
"""Values of so many bytes that are 69 MB together."""
_BROKEN = RuntimeError("these pairs break off, as they should")
"""Drivers raise errors of this class, and this one is nobody's but the caller's."""
_PAIRS = [(b"%04d" % number, b"v%d" % number) for number in range(1_000)]
_LONG = bytes(range(256)) * 800


class EngineCapabilityTests(EngineFixtures):
    """The declaration itself, and what is refused without it."""

    @pytest.mark.spec("ENG-12")
    def test_the_capabilities_are_declared_in_one_value(self, engine: Engine) -> None:
        """The engine says what it promises in a `Capabilities` of truth values."""
        capabilities = engine.capabilities

        assert type(capabilities) is Capabilities
        assert {type(made) for made in capabilities.promises.values()} == {bool}

    @pytest.mark.spec("ENG-12")
    def test_the_backend_has_a_name(self, engine: Engine) -> None:
        """Messages and reports name the backend."""
        assert isinstance(engine.name, str)
        assert engine.name

    @pytest.mark.spec("ENG-26")
    def test_a_durability_that_is_not_promised_is_refused(self, engine: Engine) -> None:
        """Without ``durable_commit``, the engine does not claim to survive a power failure."""
        promised = engine.capabilities.durable_commit or not engine.capabilities.persistent
        skip_because_promised("durable_commit", made=promised)
        with pytest.raises(CapabilityNotSupportedError):
            engine.apply({b"k": b"v"}, Durability.POWER_LOSS)

        assert pairs_of(engine) == []

    @pytest.mark.spec("ENG-12")
    def test_a_checkpoint_that_is_not_promised_is_refused(
        self, engine: Engine, tmp_path: Path
    ) -> None:
        """Without ``native_checkpoint``, asking for one raises and writes nothing."""
        skip_because_promised("native_checkpoint", made=engine.capabilities.native_checkpoint)
        with pytest.raises(CapabilityNotSupportedError):
            engine.checkpoint(tmp_path / "checkpoint")

        assert not (tmp_path / "checkpoint").exists()

    @pytest.mark.spec("ENG-12")
    def test_an_ingestion_that_is_not_promised_is_refused(self, engine: Engine) -> None:
        """Without ``bulk_ingest``, asking for it raises and loads nothing."""
        skip_because_promised("bulk_ingest", made=engine.capabilities.bulk_ingest)
        with pytest.raises(CapabilityNotSupportedError):
            engine.ingest([(b"k", b"v")])

        assert pairs_of(engine) == []


@pytest.mark.level("durable")
class EngineDurabilityTests(EngineFixtures):
    """Durable commits."""

    @pytest.mark.spec("ENG-8", "COM-12")
    @for_each("durability", Durability)
    def test_what_was_applied_is_found_again(
        self, engines: Engines, durability: Durability
    ) -> None:
        """At each durability that the engine accepts, a batch is there after reopening."""
        engine = engines.open(durability.value)
        capabilities = engine.capabilities
        skip_unless_promised("persistent", made=capabilities.persistent)
        accepted = capabilities.durable_commit or durability is Durability.PROCESS_CRASH
        skip_unless_promised("durable_commit", made=accepted)
        engine.apply({b"k": b"v"}, durability)
        engine.close()

        assert pairs_of(engines.open(durability.value)) == [(b"k", b"v")]

    @pytest.mark.spec("ENG-23")
    def test_an_empty_durable_batch_keeps_what_came_before(self, engines: Engines) -> None:
        """Batches of both durabilities, ended by an empty durable one, are all found again."""
        engine = engines.open()
        skip_unless_promised("persistent", made=engine.capabilities.persistent)
        skip_unless_promised("durable_commit", made=engine.capabilities.durable_commit)
        engine.apply({b"a": b"1"}, Durability.PROCESS_CRASH)
        engine.apply({b"b": b"2"}, Durability.POWER_LOSS)
        engine.apply({b"c": b"3"}, Durability.PROCESS_CRASH)
        engine.apply({}, Durability.POWER_LOSS)
        engine.close()

        assert pairs_of(engines.open()) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]


class EngineCheckpointTests(EngineFixtures):
    """Native checkpoints, where they are promised."""

    @pytest.fixture
    def checkpointed(self, engine: Engine) -> Engine:
        """Open one empty engine that can be checkpointed."""
        skip_unless_promised("native_checkpoint", made=engine.capabilities.native_checkpoint)
        return engine

    @pytest.mark.spec("ENG-33")
    def test_a_checkpoint_opens_with_the_content_of_its_moment(
        self, engines: Engines, checkpointed: Engine
    ) -> None:
        """Later batches are not in it, all earlier ones are, committed durably or not."""
        checkpointed.apply(dict(_PAIRS), Durability.PROCESS_CRASH)
        checkpointed.checkpoint(engines.path("checkpoint"))
        checkpointed.apply({b"later": b"v", _PAIRS[0][0]: None}, Durability.PROCESS_CRASH)

        assert pairs_of(engines.open("checkpoint")) == _PAIRS

    @pytest.mark.spec("ENG-33")
    def test_a_checkpoint_is_independent(self, engines: Engines, checkpointed: Engine) -> None:
        """Writing to the copy does not change the original, nor vice versa."""
        checkpointed.apply(dict(_PAIRS), Durability.PROCESS_CRASH)
        checkpointed.checkpoint(engines.path("checkpoint"))
        copy = engines.open("checkpoint")
        copy.apply(dict.fromkeys(dict(_PAIRS)), Durability.PROCESS_CRASH)
        checkpointed.apply({b"x": b"y"}, Durability.PROCESS_CRASH)

        assert pairs_of(copy) == []
        assert pairs_of(checkpointed) == [*_PAIRS, (b"x", b"y")]

    @pytest.mark.spec("ENG-33")
    def test_a_checkpoint_of_nothing_is_empty(self, engines: Engines, checkpointed: Engine) -> None:
        """An engine without a pair can be copied as well."""
        checkpointed.checkpoint(engines.path("checkpoint"))

        assert pairs_of(engines.open("checkpoint")) == []

    @pytest.mark.spec("ENG-33")
    def test_a_checkpoint_survives_its_original(
        self, engines: Engines, checkpointed: Engine
    ) -> None:
        """The copy keeps its content after the original has moved on and been closed."""
        checkpointed.apply(dict(_PAIRS), Durability.PROCESS_CRASH)
        checkpointed.checkpoint(engines.path("checkpoint"))
        checkpointed.apply(dict.fromkeys(dict(_PAIRS)), Durability.PROCESS_CRASH)
        checkpointed.close()

        assert pairs_of(engines.open("checkpoint")) == _PAIRS

    @pytest.mark.spec("ENG-41")
    @for_each("there", ["an empty directory", "a directory", "a file", "an engine"])
    def test_a_checkpoint_replaces_nothing(
        self, engines: Engines, checkpointed: Engine, there: str
    ) -> None:
        """Where something is already, however little, it stays as it was."""
        path = engines.path(there)
        if there == "a file":
            path.write_bytes(b"precious")
        elif there == "an engine":
            with engines.open(there) as other:
                other.apply({b"precious": b"v"}, Durability.PROCESS_CRASH)
        else:
            path.mkdir()
        if there == "a directory":
            (path / "precious").write_bytes(b"precious")
        before = _files_below(path)
        checkpointed.apply(dict(_PAIRS), Durability.PROCESS_CRASH)
        with pytest.raises(InvalidArgumentError, match=there):
            checkpointed.checkpoint(path)

        assert _files_below(path) == before
        assert pairs_of(checkpointed) == _PAIRS

    @pytest.mark.spec("ENG-41")
    def test_a_link_that_leads_nowhere_is_something(
        self, engines: Engines, checkpointed: Engine, tmp_path: Path
    ) -> None:
        """It is not followed: the copy would be where nobody looks for it."""
        link = engines.path("link")
        link.symlink_to(engines.path("nowhere"))
        before = set(tmp_path.rglob("*"))
        with pytest.raises(InvalidArgumentError, match="link"):
            checkpointed.checkpoint(link)

        assert set(tmp_path.rglob("*")) == before
        assert link.is_symlink()

    @pytest.mark.spec("ENG-28")
    def test_a_checkpoint_that_cannot_be_made_is_our_error(
        self, engines: Engines, checkpointed: Engine
    ) -> None:
        """If a file is in the way above it, the error is from the tree, and the engine goes on.

        Or a link to a place where nothing can be made. Nothing of the engine is damaged, so nobody
        is told so.
        """
        engines.path("file").write_bytes(b"in the way")
        engines.path("link").symlink_to(engines.path("nowhere"))
        checkpointed.apply(dict(_PAIRS), Durability.PROCESS_CRASH)
        for above in ("file", "link"):
            with pytest.raises(StateStoreError) as refused:
                checkpointed.checkpoint(engines.path(above) / "checkpoint")

            assert pairs_of(checkpointed) == _PAIRS
            assert not isinstance(refused.value, StoreCorruptedError)

    @pytest.mark.spec("ENG-45")
    def test_a_checkpoint_makes_the_directories_above_it(
        self, engines: Engines, checkpointed: Engine
    ) -> None:
        """As opening does: whoever names a place need not prepare it."""
        checkpointed.apply(dict(_PAIRS), Durability.PROCESS_CRASH)
        nested = engines.path("not yet") / "there" / "checkpoint"
        checkpointed.checkpoint(nested)

        assert pairs_of(engines.open(str(nested))) == _PAIRS

    @pytest.mark.level("fault-proof")
    @pytest.mark.spec("ENG-15", "ENG-28", "ENG-33")
    def test_a_checkpoint_for_which_there_is_no_room_is_not_there(
        self, engines: Engines, checkpointed: Engine, tmp_path: Path
    ) -> None:
        """It is made as a whole or not at all, and nothing is left beside it."""
        checkpointed.apply({**dict(_PAIRS), b"long": _LONG}, Durability.PROCESS_CRASH)
        content, before = pairs_of(checkpointed), set(tmp_path.iterdir())
        made = {engines.path("checkpoint")}
        with file_size(len(_LONG) // 2):
            try:
                checkpointed.checkpoint(*made)
            except StateStoreError:
                made.clear()

        assert set(tmp_path.iterdir()) == before | made
        assert pairs_of(checkpointed) == content
        for path in made:
            assert pairs_of(engines.open(path.name)) == content

    @pytest.mark.spec("ENG-22")
    def test_a_closed_engine_has_no_checkpoint(
        self, engines: Engines, checkpointed: Engine
    ) -> None:
        """It cannot be asked for after `close`, wherever it should go."""
        checkpointed.close()
        for name in ("checkpoint", "engine"):
            with pytest.raises(StoreClosedError):
                checkpointed.checkpoint(engines.path(name))


def _files_below(path: Path) -> dict[Path, bytes | None]:
    """Return *path* and everything below it, files with their content."""
    below = path.rglob("*") if path.is_dir() else ()
    return {found: found.read_bytes() if found.is_file() else None for found in (path, *below)}


class EngineIngestionTests(EngineFixtures):
    """Bulk ingestion, where it is promised."""

    @pytest.fixture
    def ingesting(self, engine: Engine) -> Engine:
        """Open one empty engine that can ingest."""
        skip_unless_promised("bulk_ingest", made=engine.capabilities.bulk_ingest)
        return engine

    @pytest.mark.spec("ENG-34")
    def test_ingested_pairs_replace_stored_ones(self, ingesting: Engine) -> None:
        """What is ingested is later than what is stored; other keys stay."""
        ingesting.apply({b"0": b"kept", _PAIRS[0][0]: b"old"}, Durability.PROCESS_CRASH)
        ingesting.ingest(_PAIRS)

        assert pairs_of(ingesting) == [(b"0", b"kept"), *_PAIRS]

    @pytest.mark.spec("ENG-34", "ENG-8")
    def test_ingested_pairs_are_read_where_there_was_nothing(self, ingesting: Engine) -> None:
        """Neither a deletion hides them, nor that somebody has asked for them before."""
        deleted, missing, asked = _PAIRS[::3], _PAIRS[1::3], [key for key, _ in _PAIRS]
        ingesting.apply(dict(deleted), Durability.PROCESS_CRASH)
        ingesting.apply(dict.fromkeys(key for key, _ in deleted), Durability.PROCESS_CRASH)

        assert ingesting.get_many(asked) == [None] * len(_PAIRS)
        assert [ingesting.get(key) for key in asked] == [None] * len(_PAIRS)
        assert ingesting.first(b"") is ingesting.last(b"") is None
        ingesting.ingest(sorted(deleted + missing))
        there = dict(deleted + missing)
        values = [there.get(key) for key in asked]

        assert [ingesting.get(key) for key in asked] == values
        assert ingesting.get_many(asked) == values
        assert pairs_of(ingesting) == sorted(there.items())
        assert [ingesting.first(b""), ingesting.last(b"")] == [_PAIRS[0], max(there.items())]

    @pytest.mark.spec("ENG-34")
    def test_batches_replace_ingested_pairs(self, ingesting: Engine) -> None:
        """A later batch is later than what was ingested, put or deletion."""
        ingesting.ingest(_PAIRS)
        ingesting.apply({_PAIRS[0][0]: None, _PAIRS[1][0]: b"new"}, Durability.PROCESS_CRASH)

        assert pairs_of(ingesting) == [(_PAIRS[1][0], b"new"), *_PAIRS[2:]]

    @pytest.mark.level("durable")
    @pytest.mark.spec("ENG-34", "ENG-18")
    def test_ingested_pairs_survive_closing(self, engines: Engines, ingesting: Engine) -> None:
        """They are durable when `ingest` returns."""
        skip_unless_promised("persistent", made=ingesting.capabilities.persistent)
        ingesting.ingest(_PAIRS)
        ingesting.ingest([(b"later", b"v")])
        ingesting.close()

        assert pairs_of(engines.open()) == [*_PAIRS, (b"later", b"v")]

    @pytest.mark.spec("ENG-34", "ENG-9")
    def test_an_ingestion_does_not_show_in_what_is_frozen(self, ingesting: Engine) -> None:
        """Scans and snapshots from before do not see it, whether it replaces pairs or only adds.

        Nor does a scan alone: a driver may take it for nothing that anybody has to be kept from.
        """
        ingesting.apply({b"a": b"1"}, Durability.PROCESS_CRASH)
        scan = ingesting.scan(b"")
        with ingesting.snapshot() as snapshot:
            ingesting.ingest([(b"0", b"v"), (b"a", b"2")])

            assert list(scan) == pairs_of(snapshot) == [(b"a", b"1")]
        ingesting.apply(dict(_PAIRS), Durability.PROCESS_CRASH)
        before = pairs_of(ingesting)
        scans = [ingesting.scan(b""), ingesting.scan(b"", reverse=True)]
        begun = [next(scan) for scan in scans]
        with ingesting.snapshot() as snapshot:
            ingesting.ingest([(b"y", b"v"), (b"z", b"v")])

            assert [begun[0], *scans[0]] == before
            assert [begun[1], *scans[1]] == before[::-1]
            assert pairs_of(snapshot) == before
        before += [(b"y", b"v"), (b"z", b"v")]
        assert pairs_of(ingesting) == before
        scans = [ingesting.scan(b""), ingesting.scan(b"", reverse=True)]
        begun = [next(scan) for scan in scans]
        ingesting.ingest([(b"zy", b"v"), (b"zz", b"v")])

        assert [begun[0], *scans[0]] == before
        assert [begun[1], *scans[1]] == before[::-1]

    @pytest.mark.spec("ENG-34")
    def test_ingesting_nothing_is_not_an_error(self, ingesting: Engine) -> None:
        """No pairs, no change."""
        ingesting.ingest([])

        assert pairs_of(ingesting) == []

    @pytest.mark.spec("ENG-34", "ENG-16")
    def test_an_ingestion_that_fails_loads_nothing(
        self, engines: Engines, ingesting: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """When the pairs break off, none of them is seen, and no file is left behind.

        So it is when one of them is not bytes, alone, or after many that are. When the process
        dies, the next opening removes what it has left.
        """
        files = sorted(tmp_path.rglob("*"))
        left = tmp_path.with_name(f"{tmp_path.name}-left")

        def broken() -> Iterator[tuple[bytes, bytes]]:
            yield from _PAIRS
            if ingesting.capabilities.persistent:
                shutil.copytree(engines.path(), left)
            raise _BROKEN

        with pytest.raises(RuntimeError) as raised:
            ingesting.ingest(broken())

        assert raised.value is _BROKEN
        assert pairs_of(ingesting) == []
        assert sorted(tmp_path.rglob("*")) == files
        half_done = {path.name for path in left.rglob("*")} - {path.name for path in files}
        if left.exists():
            with open_engine(left) as opened:
                assert pairs_of(opened) == []
        assert half_done & {path.name for path in left.rglob("*")} == set()
        wrong: list[Any] = [("text", b"v"), (None, b"v"), (5, b"v"), (b"z", "text"), (b"z", 3)]
        for pair in wrong:
            for pairs in ([pair], [*_PAIRS, pair]):
                with pytest.raises((TypeError, StateStoreError)) as refused:
                    ingesting.ingest(pairs)

                # Which would say that the keys do not ascend (ENG-35), and they do.
                assert not isinstance(refused.value, InvalidArgumentError)
                assert pairs_of(ingesting) == []
                assert sorted(tmp_path.rglob("*")) == files

    @pytest.mark.spec("ENG-34", "ENG-18")
    def test_many_megabytes_are_ingested_as_one(self, engines: Engines, ingesting: Engine) -> None:
        """More than an engine may have in one file of its own, and pairs of any size after it."""
        noise = random.Random(_SEED).randbytes(2 * _LARGE_BYTES)  # noqa: S311  # nothing shortens it
        values = [noise[at : at + _LARGE_BYTES] for at in range(_LARGE_PAIRS)]
        pairs = [(b"%05d" % number, value) for number, value in enumerate(values)]
        ingesting.ingest([*pairs, (b"1", b"v"), (b"2", b"v")])

        assert ingesting.get_many([b"1", b"2"]) == [b"v", b"v"]
        if ingesting.capabilities.persistent:
            ingesting.close()
            ingesting = engines.open()
        assert all(map(eq, ingesting.scan(b"0", b"1"), pairs))
        assert ingesting.last(b"", b"1") == pairs[-1]

    @pytest.mark.spec("ENG-35")
    @for_each("keys", [[b"b", b"a"], [b"a", b"a"], [b"a", b"c", b"b"]])
    def test_keys_that_do_not_ascend_are_refused(
        self, ingesting: Engine, keys: list[bytes]
    ) -> None:
        """Unsorted and repeated keys raise, and nothing is loaded."""
        with pytest.raises(InvalidArgumentError):
            ingesting.ingest((key, b"v") for key in keys)

        assert pairs_of(ingesting) == []

    @pytest.mark.spec("ENG-35")
    @for_each("size", SIZES_AROUND_EDGES)
    def test_keys_that_stop_ascending_late_are_refused(self, ingesting: Engine, size: int) -> None:
        """Also where a chunk of the ingestion ends: the last key of one bounds the next."""
        keys = [b"%05d" % number for number in range(size)]
        for last in (keys[-1], keys[0]):
            with pytest.raises(InvalidArgumentError):
                ingesting.ingest((key, b"v") for key in [*keys, last])

        assert pairs_of(ingesting) == []

    @pytest.mark.spec("ENG-22")
    def test_a_closed_engine_ingests_nothing(self, ingesting: Engine) -> None:
        """It cannot be asked for after `close`, and what is wrong with the pairs comes second."""
        ingesting.close()
        for pairs in (_PAIRS, _PAIRS[::-1]):
            with pytest.raises(StoreClosedError):
                ingesting.ingest(pairs)
