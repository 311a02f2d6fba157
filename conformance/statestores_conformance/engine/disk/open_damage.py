"""Damage done to the files of an engine that is open: each read that meets it says so."""

import random
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from statestores.errors import StateStoreError, StoreCorruptedError
from statestores.spi import Engine, EngineReader, EngineSnapshot
from statestores_conformance.intensity import seed
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    OpenEngine,
    durability_of,
    open_files_below,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_SEED = seed(20240229)
_MASK = 4
"""A bit that makes of each small number a larger one: of a type or length that there is not."""
_LARGE = 8192
"""Smaller files have no middle that is sure to be data."""
_LONG_KEYS = 80
_LONG_KEY = b"%04d" + b"k" * 140


class OpenDamageTests(EngineFixtures):
    """What an engine that finds damage does when it comes while it is open."""

    @pytest.mark.spec("ENG-14", "ENG-10", "ENG-19")
    def test_damage_done_to_an_open_engine_is_never_data(
        self, engines: Engines, checking: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """A read that meets damage raises: each time, whichever read it is, in snapshots as well.

        The driver finds it in the middle of a call, not at opening, and what it raises is ours to
        translate. The reads that do not meet it are right, and the engine can still be closed.
        """
        noise = random.Random(_SEED)  # noqa: S311  # repeatable; nothing makes it shorter
        content = [(b"%04d" % number, noise.randbytes(1_000)) for number in range(20)]
        checking.apply(dict(content), durability_of(checking))
        checking.close()
        for damage in _DAMAGES:
            path = tmp_path / damage.__name__
            if damage is _flip_before_keys:
                content = [(_LONG_KEY % number, b"") for number in range(_LONG_KEYS)]
                with open_engine(path) as engine:
                    engine.apply(dict(content), durability_of(engine))
            else:
                shutil.copytree(engines.path(), path)
            engine = open_engine(path)
            before = engine.snapshot()
            # A reader that nobody uses, and a batch since: what it has kept of the files is old.
            assert engine.get(content[0][0]) == content[0][1]
            engine.apply(dict(content[:1]), durability_of(engine))
            for file in path.rglob("*"):
                if file.is_file() and file.stat().st_size > _LARGE:
                    damage(file)
            # With their tracebacks, as somebody has them who handles the errors.
            errors: list[StoreCorruptedError] = []
            for _ in range(2):
                readers: list[EngineReader] = [engine, before]
                try:
                    readers.append(engine.snapshot())
                except StoreCorruptedError as error:
                    errors.append(error)
                for reader in readers:
                    errors += _check_every_read(reader, content)
                for snapshot in readers[2:]:
                    cast("EngineSnapshot", snapshot).close()
            try:
                engine.close()
            except StateStoreError:
                engine.close()

            assert open_files_below(path) == []
            assert all(error.__traceback__ for error in errors)
            with suppress(StoreCorruptedError):  # and no other error: nobody holds the lock
                open_engine(path).close()


def _overwrite_the_middle(file: Path) -> None:
    """Write garbage into the half of *file* that is neither its beginning nor its end."""
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.seek(size // 4)
        opened.write(b"\xa5" * (size // 2))


def _overwrite_the_beginning(file: Path) -> None:
    """Write garbage over what a file begins with: whatever says what it is may be there."""
    with file.open("r+b") as opened:
        opened.write(b"\xa5" * 100)


def _flip_bits_in_the_middle(file: Path) -> None:
    """Flip a bit in each 700 bytes of that half: most are in values, where only a sum shows it."""
    size = file.stat().st_size
    with file.open("r+b") as opened:
        for position in range(size // 4, size * 3 // 4, 700):
            opened.seek(position)
            byte = opened.read(1)[0]
            opened.seek(position)
            opened.write(bytes([byte ^ 4]))


def _flip_before_keys(file: Path) -> None:
    """Flip a bit two bytes before some keys in *file*: in a length, or in the type of a value.

    What is before that may be about the key, and hide it.
    """
    data = file.read_bytes()
    with file.open("r+b") as opened:
        for at in (data.find(_LONG_KEY % number) - 2 for number in range(0, _LONG_KEYS, 4)):
            if at >= 0:
                opened.seek(at)
                opened.write(bytes([data[at] ^ _MASK]))


_DAMAGES = (
    _overwrite_the_middle,
    _overwrite_the_beginning,
    _flip_bits_in_the_middle,
    _flip_before_keys,
)
"""What is done to an open engine."""


def _check_every_read(
    reader: EngineReader, content: list[tuple[bytes, bytes]]
) -> list[StoreCorruptedError]:
    """Check that each read of *reader* raises, and does so again, or gives what is in *content*.

    What is in memory does not meet the damage. Return the errors.
    """
    errors = []
    keys = [key for key, _ in content]
    reads: list[tuple[Callable[[], object], object]] = [
        (lambda: reader.get_many(keys), [value for _, value in content]),
        (lambda: list(reader.scan(b"")), content),
        (lambda: list(reader.scan(b"", reverse=True)), content[::-1]),
        (lambda: reader.first(b""), content[0]),
        (lambda: reader.last(b""), content[-1]),
    ]
    reads += [(partial(reader.get, key), value) for key, value in content]
    reads += [(partial(reader.first, key), (key, value)) for key, value in content[::5]]
    # A driver that reads ahead may meet the damage behind a short range, and not do so again.
    short: list[tuple[Callable[[], object], object]] = []
    for pair in content:
        key, beyond = pair[0], pair[0] + b"\0"
        short += [
            (partial(reader.first, key, beyond), pair),
            (partial(reader.first, beyond, beyond + b"\0"), None),
            (partial(reader.last, b"", beyond), pair),
            (partial(_listed, reader, key, beyond, reverse=False), [pair]),
            (partial(_listed, reader, key, beyond, reverse=True), [pair]),
        ]
    for read, expected in short * 2:
        with suppress(StoreCorruptedError):
            assert read() == expected
    met = []
    for read, expected in reads:
        try:
            found = read()
        except StoreCorruptedError as error:
            met.append(read)
            errors.append(error)
        else:
            assert found == expected
    # Once more, so that a read that has met damage is the last thing that the driver has seen.
    for read in met:
        with pytest.raises(StoreCorruptedError):
            read()
    return errors


def _listed(reader: EngineReader, start: bytes, stop: bytes, *, reverse: bool) -> list[object]:
    return list(reader.scan(start, stop, reverse=reverse))
