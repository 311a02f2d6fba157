"""Logs that have lost their tail, as a crash leaves them: a whole batch is the last one, or none.

An engine that promises to find damage is asked about any file that may be its log. Of one that does
not, whatever grows with each batch and keeps what was in it is a log; and that a log was not
finished is no damage, so this needs no checksum: lengths are enough.
"""

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from statestores.errors import StoreCorruptedError
from statestores.spi import Engine
from statestores_conformance.engine.disk.altered_files import appended_to, bytes_of
from statestores_conformance.engine.disk.killed_copy import killed_copy
from statestores_conformance.intensity import seed
from statestores_conformance.promises import NOT_APPLICABLE
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    OpenEngine,
    Pairs,
    durability_of,
    fill,
    pairs_of,
)

_SEED = seed(1729)
_LAST = 4
"""How many batches of each sort the engine is watched at."""
_CUTS = (1, 7, 23, 100, 1_000)
_LATER = {b"later": b"v"}
_VALUES = (70_000, 1_100_000, 4_300_000)
"""The sizes of long values, each of which an engine may keep beside its log."""
_PIECE_BYTES = 1_000


class TornLogTests(EngineFixtures):
    """What an engine makes of a log that was not written to its end."""

    @pytest.mark.spec("ENG-32", "ENG-27")
    def test_a_torn_tail_loses_whole_batches_or_is_refused(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Copied while it was open and cut at the end, the log gives a prefix of the batches.

        Whatever the engine promises of damage: of a batch of several rows, in which rows are
        replaced and deleted, none of them is there if one is not.
        """
        left, states, appended = _left(engines, persistent_engine, tmp_path / "live")
        files, logs = bytes_of(left), set(appended)
        if _is_checking(persistent_engine):
            logs.add(max(files, key=lambda name: len(files[name])))
        if not logs:
            pytest.skip(f"{NOT_APPLICABLE}no file of the engine is appended to by each batch")
        for name in sorted(logs):
            for cut in _CUTS:
                what = f"{cut} bytes were cut from {name}"
                _check_cut(left, name, files[name][:-cut], states, open_engine, what)

    @pytest.mark.spec("ENG-7", "ENG-27", "ENG-50")
    def test_a_long_value_is_there_whole_or_its_batch_is_not(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Copied while the engine was open, and cut where the value is: the last batch has it.

        It may be in a file of its own, which the log knows by name, and be on the disk later.
        """
        noise = random.Random(_SEED)  # noqa: S311  # repeatable; nothing makes it shorter
        path, states, checking = engines.path(), [Pairs()], _is_checking(persistent_engine)
        lives = []
        for number, size in enumerate(_VALUES):
            before, value = bytes_of(path), noise.randbytes(size)
            batch = {b"a%d" % number: b"v", b"b%d" % number: value, b"c": b"%d" % number}
            persistent_engine.apply(dict(batch), durability_of(persistent_engine))
            states.append(pairs_of(persistent_engine))
            lives.append((before, value, killed_copy(path, tmp_path / str(size))))
        persistent_engine.close()  # copies may name what it has elsewhere, as on a server
        for count, (before, value, left) in enumerate(lives, start=2):
            found, size = states[:count], len(value)
            whole = shutil.copytree(left, tmp_path / "whole")
            with open_engine(whole) as opened:
                there = pairs_of(opened)

                assert there in (found[-1], states[-1]), f"a value of {size} bytes"
            shutil.rmtree(whole)
            for name, data in bytes_of(left).items():
                at = _place_of(value, data)
                if at is None or not (checking or data.startswith(before.get(name, b""))):
                    continue
                what = f"{name} was cut within a value of {size} bytes"
                for kept in {at, len(before.get(name, b""))}:
                    _check_cut(left, name, data[:kept], found, open_engine, what)


def _is_checking(engine: Engine) -> bool:
    return engine.capabilities.detects_corruption


def _place_of(value: bytes, data: bytes) -> int | None:
    """Return where *data* has a piece of the middle of *value*, which may be in blocks there."""
    middle = len(value) // 2
    pieces = (value[at : at + _PIECE_BYTES] for at in range(middle, middle + 5_000, _PIECE_BYTES))
    places = (data.find(piece) for piece in pieces)
    return next((place for place in places if place >= 0), None)


def _check_cut(
    left: Path, name: str, data: bytes, states: list[Pairs], open_engine: OpenEngine, what: str
) -> None:
    """Open a copy of *left* with *data* in the file *name*: it has one of *states*, or is refused.

    It goes on from there: what is applied is there, also in the next life.
    """
    torn = shutil.copytree(left, left.with_name("torn"))
    (torn / name).write_bytes(data)
    with suppress(StoreCorruptedError):
        with open_engine(torn) as opened:
            found = pairs_of(opened)

            assert found in states, what
            opened.apply(dict(_LATER), durability_of(opened))
        with open_engine(torn) as opened:
            assert pairs_of(opened) == sorted([*found, *_LATER.items()]), what
    shutil.rmtree(torn)


def _left(engines: Engines, engine: Engine, to: Path) -> tuple[Path, list[Pairs], list[str]]:
    """Apply batches in which rows are replaced and deleted, and copy what a kill would leave *to*.

    Return the copy, the content before and after each batch, and the names of files that each of
    the last ones was appended to.
    """
    states = fill(engine)
    moments = [bytes_of(engines.path())]
    for number in range(_LAST):
        kept = [key for key, _ in states[-1]]
        batch: dict[bytes, bytes | None] = dict.fromkeys(kept[:5], b"again %d" % number)
        batch |= {**dict.fromkeys(kept[-3:]), b"99-%d" % number: b"v"}
        engine.apply(batch, durability_of(engine))
        states.append(pairs_of(engine))
        moments.append(bytes_of(engines.path()))
    return killed_copy(engines.path(), to), states, appended_to(moments)
