"""Whether a durable batch has reached the disk, seen from outside the engine."""

import itertools
import json
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from statestores.errors import StateStoreError
from statestores.spi import Durability, Engine
from statestores_conformance.engine.disk.page_cache import PAGE_BYTES, PageCache, can_be_observed
from statestores_conformance.engine.disk.process_limits import file_size
from statestores_conformance.engine.lifecycle.locks import import_path_of
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import EngineFixtures, Engines, OpenEngine
from statestores_conformance.subjects.openers import options_of

_VALUE_BYTES = 100_000
_TIMES = 200
_PARTS = 4
"""In so many batches, each of which may be in a log of its own."""
_LONG_BYTES = 4_000_000
"""A value that an engine may keep beside its log."""
_FAILED_BYTES = 2_000_000
"""A batch of so many bytes fails where no file may become half as long."""
_LEFT_BYTES = 1_000_000
"""More than an opening writes on its own."""

_OTHER_PLACES = (Path("/var/tmp"), Path.cwd())  # noqa: S108  # a directory is made below them
"""Where there may be a disk when the files of tests are in memory."""

_LEAVE = """
import json, os, secrets, sys
from statestores.registry import load_backend
from statestores.spi import Durability
name, path, options, size = json.loads(sys.argv[1])
engine = load_backend(name).open(path, options)
engine.apply({b"left": secrets.token_bytes(size)}, Durability.PROCESS_CRASH)
os._exit(0)
"""
"""A program that applies a batch which waits for nothing, and dies with the engine open."""


class EngineDiskTests(EngineFixtures):
    """What the kernel says about the engine's files after a durable batch."""

    @pytest.fixture
    def on_disk(self, open_engine: OpenEngine, tmp_path: Path) -> Iterator[Engines]:
        """Open durable engines where the kernel tells what is on the disk."""
        with ExitStack() as at_the_end:
            for place in (tmp_path, *_OTHER_PLACES):
                with suppress(OSError):  # read-only, or not there: then the next
                    directory = Path(
                        at_the_end.enter_context(
                            tempfile.TemporaryDirectory(dir=place, prefix="statestores-")
                        )
                    )
                    if can_be_observed(directory):
                        break
            else:
                pytest.skip("the kernel or the file systems do not tell what is on the disk")
            engines = Engines(open_engine, directory)
            at_the_end.callback(engines.close)
            capabilities = engines.open("probe").capabilities
            promised = capabilities.persistent and capabilities.durable_commit
            skip_unless_promised("durable_commit", made=promised)
            yield engines
            engines.check_and_close()

    @pytest.mark.spec("ENG-8", "ENG-12", "ENG-23", "ENG-27", "ENG-34", "ENG-50", "COM-12")
    def test_a_durable_batch_waits_for_the_disk(self, on_disk: Engines) -> None:
        """It takes to disk what was applied before it without waiting, even when it is empty.

        All of it, in whichever files it is: logs that others have followed, and long values. And
        what is in it: a log may be waited for by other batches, and not by this one.
        So does an ingestion: no earlier batch may be missing where a later one is found.
        """
        writes = {
            "batch": _apply_one,
            "empty batch": _apply_nothing,
            "ingestion": _ingest_one,
        }
        if not on_disk.open("asked").capabilities.bulk_ingest:
            del writes["ingestion"]
        for name, write in writes.items():
            _check_wait(on_disk.path(name), on_disk.open(name), write)
        for size in (_VALUE_BYTES, _LONG_BYTES):
            _check_own_wait(on_disk.path(f"own {size}"), on_disk.open(f"own {size}"), size)
        _check_wait(on_disk.path("long"), on_disk.open("long"), _apply_one, size=_LONG_BYTES)
        # What is longer than a log may become, so that there are several, and that the durable
        # batch begins another.
        _check_wait(on_disk.path("logs"), on_disk.open("logs"), _apply_one, times=_TIMES)

    @pytest.mark.spec("ENG-8", "COM-12", "COM-25")
    def test_a_durable_batch_waits_whatever_came_before(self, on_disk: Engines) -> None:
        """After any two batches of either durability, also those of another life."""
        for number, before in enumerate(itertools.product(Durability, repeat=2)):
            name = f"engine-{number}"
            engine = on_disk.open(name)
            for step, durability in enumerate(before):
                engine.apply({b"%d" % step: secrets.token_bytes(_VALUE_BYTES)}, durability)
            _check_wait(on_disk.path(name), engine, _apply_one)
            engine.close()
            _check_wait(on_disk.path(name), on_disk.open(name), _apply_one)

    @pytest.mark.spec("ENG-23", "ENG-8", "ENG-16")
    def test_an_empty_durable_batch_waits_also_after_one_that_failed(
        self, on_disk: Engines
    ) -> None:
        """What was applied before both without waiting is owed until a durable batch succeeds."""
        with suppress(StateStoreError):  # then nobody is told that anything is on the disk
            _check_wait(on_disk.path(), on_disk.open(), _fail_and_apply_nothing)

    @pytest.mark.spec("ENG-23", "ENG-8")
    def test_an_empty_durable_batch_waits_for_what_a_killed_process_left(
        self, on_disk: Engines, open_engine: OpenEngine
    ) -> None:
        """Whoever opens after it has written nothing, and owes the disk all the same."""
        with on_disk.open() as engine:
            name = import_path_of(engine)
        path = on_disk.path()
        call = json.dumps([name, str(path), options_of(open_engine), _LEFT_BYTES])
        subprocess.run([sys.executable, "-c", _LEAVE, call], check=True)  # noqa: S603  # our own
        with PageCache(path) as cache:
            engine = on_disk.open()
            before = cache.pages_not_on_disk()
            engine.apply({}, Durability.POWER_LOSS)
            after = cache.pages_not_on_disk()

        # What the opening has moved to the disk already is owed no more; logs for humans never are.
        owing = [file for file, pages in before.items() if pages * PAGE_BYTES > _LEFT_BYTES / 2]

        assert _still_owed(owing, before, after) == []


def _apply_one(engine: Engine) -> None:
    engine.apply({b"k": secrets.token_bytes(1)}, Durability.POWER_LOSS)


def _apply_nothing(engine: Engine) -> None:
    engine.apply({}, Durability.POWER_LOSS)


def _fail_and_apply_nothing(engine: Engine) -> None:
    with file_size(_FAILED_BYTES // 2), suppress(StateStoreError):
        engine.apply({b"failed": secrets.token_bytes(_FAILED_BYTES)}, Durability.PROCESS_CRASH)
    _apply_nothing(engine)


def _ingest_one(engine: Engine) -> None:
    engine.ingest([(b"k", b"v")])


def _check_own_wait(path: Path, engine: Engine, size: int) -> None:
    """Fail if a durable batch of *size* bytes leaves much of itself in memory alone."""
    with PageCache(path) as cache:
        before = cache.pages_not_on_disk()
        engine.apply({b"own": secrets.token_bytes(size)}, Durability.POWER_LOSS)
        after = cache.pages_not_on_disk()
    grown = {file: pages - before.get(file, 0) for file, pages in after.items()}

    assert [file for file, pages in grown.items() if pages * PAGE_BYTES > _VALUE_BYTES / 2] == []


def _check_wait(
    path: Path,
    engine: Engine,
    write: Callable[[Engine], None],
    times: int = 1,
    size: int = _VALUE_BYTES,
) -> None:
    """Fail unless a durable *write* takes to disk what batches before it have left in memory.

    These have *times* values of *size* bytes.
    """
    owed = _owed_after(path, engine, write, times, size)
    if owed:
        # What is in other files by now, durably, owes the disk nothing, and may be removed a moment
        # later. Then it is not so again.
        owed = _owed_after(path, engine, write, times, size)

    assert owed == []


def _owed_after(
    path: Path, engine: Engine, write: Callable[[Engine], None], times: int, size: int
) -> list[Path]:
    """Return the files of which *write* leaves in memory what batches before it have left there."""
    keys = [b"large-%03d" % number for number in range(times)]
    with PageCache(path) as cache:
        at_first = cache.pages_not_on_disk()
        for part in range(_PARTS):
            batch = {key: secrets.token_bytes(size) for key in keys[part::_PARTS]}
            if batch:
                engine.apply(batch, Durability.PROCESS_CRASH)
        before = cache.pages_not_on_disk()
        write(engine)
        after = cache.pages_not_on_disk()
    # What is a few pages longer, as logs for humans and shared memory are, owes the disk nothing.
    grown = {file: pages - at_first.get(file, 0) for file, pages in before.items()}
    owing = [file for file, pages in grown.items() if pages * PAGE_BYTES > _VALUE_BYTES / 2]
    return _still_owed(owing, before, after)


def _still_owed(owing: list[Path], before: dict[Path, int], after: dict[Path, int]) -> list[Path]:
    """Return those of *owing* that are there, and of which no more is on the disk than *before*.

    The kernel may write them by itself meanwhile; and of a file that is gone, what it had is in
    another one.
    """
    return [file for file in owing if after[file] >= before[file] and file.exists()]
