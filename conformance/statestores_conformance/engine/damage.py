"""Damaged files: found, never passed on as data, and never repaired by guessing."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from statestores.errors import StateStoreError, StoreCorruptedError
from statestores.spi import Engine
from statestores_conformance.intensity import seed, trials
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    OpenEngine,
    durability_of,
    pairs_of,
)

_SEED = seed(20240229)
_TRIALS = trials(40)
_BATCHES = 30


def _fill(engine: Engine) -> list[list[tuple[bytes, bytes]]]:
    """Apply batches to *engine* and return the content after none, one, two... of them."""
    content: dict[bytes, bytes] = {}
    states = [list[tuple[bytes, bytes]]()]
    for number in range(_BATCHES):
        batch = {b"%02d-%03d" % (number % 7, key): b"%d" % number * 20 for key in range(20)}
        engine.apply(batch, durability_of(engine))
        content.update(batch)
        states.append(sorted(content.items()))
    return states


def _bytes_of(directory: Path) -> dict[str, bytes]:
    """Return the files that *directory* holds."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.mark.level("fault-proof")
class EngineDamageTests(EngineFixtures):
    """What an engine does with files that somebody else has changed."""

    @pytest.fixture
    def checking(self, persistent_engine: Engine) -> Engine:
        """Open one empty engine that finds damage."""
        promised = persistent_engine.capabilities.detects_corruption
        skip_unless_promised("detects_corruption", made=promised)
        return persistent_engine

    @pytest.mark.spec("ENG-14")
    def test_a_flipped_bit_is_never_data(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Whichever bit of any file is flipped: an error, or exactly what was written."""
        content = _fill(checking)[-1]
        checking.close()
        for damaged, what in _with_a_flipped_bit(engines.path(), tmp_path):
            try:
                with open_engine(damaged) as opened:
                    found = pairs_of(opened)
            except StoreCorruptedError:
                continue

            assert found == content, what

    @pytest.mark.spec("ENG-14", "ENG-32")
    def test_a_flipped_bit_after_a_crash_is_never_data(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Nobody has closed these files, so no sum of a whole file protects what is in them.

        The last batch may be taken for a torn tail; what was there before it may not change.
        """
        content = _fill(checking)[-1]
        checking.close()
        again = engines.open()
        again.apply({b"later": b"v"}, durability_of(again))
        live = tmp_path / "live"
        shutil.copytree(engines.path(), live)
        states = [content, pairs_of(again)]
        again.close()
        for damaged, what in _with_a_flipped_bit(live, tmp_path):
            try:
                with open_engine(damaged) as opened:
                    found = pairs_of(opened)
            except StoreCorruptedError:
                continue

            assert found in states, what

    @pytest.mark.spec("ENG-14")
    def test_a_missing_file_is_never_a_hole(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Whichever file is gone: an error from the tree, or exactly what was written."""
        content = _fill(checking)[-1]
        checking.close()
        for number, path in enumerate(sorted(engines.path().rglob("*"))):
            if not path.is_file() or path.stat().st_size < 100:  # lock files
                continue
            damaged = tmp_path / f"damaged-{number}"
            shutil.copytree(engines.path(), damaged)
            (damaged / path.relative_to(engines.path())).unlink()
            try:
                with open_engine(damaged) as opened:
                    found = pairs_of(opened)
            except StateStoreError:
                continue

            assert found == content, f"{path.name} was removed"

    @pytest.mark.spec("ENG-31")
    def test_an_opening_that_fails_repairs_nothing(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """What could not be opened is still there, byte for byte, for somebody to rescue."""
        _fill(checking)
        checking.close()
        refused = 0
        for number, path in enumerate(sorted(engines.path().rglob("*"))):
            if not path.is_file() or not path.stat().st_size:
                continue
            damaged = tmp_path / f"damaged-{number}"
            shutil.copytree(engines.path(), damaged)
            (damaged / path.relative_to(engines.path())).write_bytes(b"\xa5" * 4096)
            before = _bytes_of(damaged)
            try:
                open_engine(damaged).close()
            except StateStoreError:
                after = _bytes_of(damaged)
                refused += 1
                # A log for humans may be rotated: what it held is then under another name.
                lost = [
                    name
                    for name, data in before.items()
                    if not any(kept.startswith(data) for kept in after.values())
                ]

                assert [name for name in lost if "lock" not in name.lower()] == []

        assert refused, "no damage was found at opening"

    @pytest.mark.spec("ENG-32", "ENG-27")
    def test_a_torn_tail_loses_whole_batches_or_is_refused(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Copied while it was open and cut at the end, the log gives a prefix of the batches."""
        states = _fill(checking)
        live = tmp_path / "live"
        shutil.copytree(engines.path(), live)
        checking.close()
        log = max((path for path in live.rglob("*") if path.is_file()), key=_size)
        for cut in (1, 7, 100, 1_000):
            torn = tmp_path / f"torn-{cut}"
            shutil.copytree(live, torn)
            file = torn / log.relative_to(live)
            data = file.read_bytes()
            file.write_bytes(data[:-cut])
            try:
                with open_engine(torn) as opened:
                    found = pairs_of(opened)
            except StateStoreError:
                continue

            assert found in states, f"{cut} bytes were cut from {file.name}"

    @pytest.mark.level("crash-proof")
    @pytest.mark.spec("ENG-32", "ENG-36")
    def test_a_copy_of_a_living_engine_opens_at_a_whole_batch(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """The files that a dead process leaves behind open again, with every batch in them."""
        states = _fill(persistent_engine)
        shutil.copytree(engines.path(), tmp_path / "left")
        with open_engine(tmp_path / "left") as opened:
            assert pairs_of(opened) == states[-1]


def _with_a_flipped_bit(engine: Path, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Yield copies of the directory *engine* with one bit flipped, and which; each file in turn."""
    choose = random.Random(_SEED)  # noqa: S311  # reproducible, not secret
    files = sorted(path for path in engine.rglob("*") if path.is_file() and path.stat().st_size)
    for trial in range(_TRIALS):
        damaged = tmp_path / f"damaged-{trial}"
        shutil.copytree(engine, damaged)
        file = damaged / files[trial % len(files)].relative_to(engine)
        data = bytearray(file.read_bytes())
        position = choose.randrange(len(data))
        data[position] ^= 1 << choose.randrange(8)
        file.write_bytes(data)
        yield damaged, f"byte {position} of {file.name} was flipped"


def _size(path: Path) -> int:
    return path.stat().st_size
