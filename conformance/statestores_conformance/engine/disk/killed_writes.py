"""Processes that the system ends in the middle of a write, at a place that the test chooses.

A kill seldom comes between two writes of one batch, and a copy of the directory never does. But a
program that lets it happen is ended by the kernel at the write that makes a file longer than it may
be: what it wrote before that is there, and nothing else.
"""

import json
import signal
import subprocess
import sys
from typing import NamedTuple

import pytest

from statestores.spi import Engine
from statestores_conformance.engine.lifecycle.locks import import_path_of
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    OpenEngine,
    durability_of,
    pairs_of,
)
from statestores_conformance.subjects.openers import options_of

_WRITE = """
import json, os, resource, signal, sys, traceback
from pathlib import Path
from statestores.errors import StorageError
from statestores.registry import load_backend
from statestores.spi import Durability

name, options, durability, cases, told = json.loads(sys.argv[1])


def live(path, value_bytes, share):
    engine = load_backend(name).open(path, options)
    engine.apply({b"a": b"before", b"b": b"before"}, Durability(durability))
    sizes = [file.stat().st_size for file in Path(path).rglob("*") if file.is_file()]
    value = os.urandom(value_bytes)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    limit = max(sizes, default=0) + int(share * value_bytes)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    engine.apply({b"a": b"after", b"b": value, b"c": b"after"}, Durability(durability))


for case in cases:
    child = os.fork()
    if child == 0:
        try:
            live(*case)
            os._exit(0)
        except StorageError:  # a driver may be told how little was written, and not try again
            os._exit(told)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""A program whose children die within a batch, or having applied it."""


_TOLD = 3
"""The exit code of one whose batch was refused."""


class _Case(NamedTuple):
    """A batch with a long value, and where its process ends."""

    value_bytes: int
    share: float
    """How much of the value fits into a file that is as long as the longest one."""


_CASES = tuple(
    _Case(value_bytes, share) for value_bytes in (100_000, 4_000_000) for share in (0.05, 0.6)
)


class EngineKilledWriteTests(EngineFixtures):
    """What a process leaves that has written a part of a batch."""

    @pytest.mark.level("crash-proof")
    @pytest.mark.spec("ENG-7", "ENG-8", "ENG-27", "ENG-50")
    def test_a_batch_is_not_there_before_all_of_it_is(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine
    ) -> None:
        """Its long value may be in another file than the rest, and written before it or after it.

        What was applied earlier is there, and the engine goes on.
        """
        pytest.importorskip("resource", reason="the system has no limit on the size of a file")
        durability, name = durability_of(persistent_engine), import_path_of(persistent_engine)
        persistent_engine.close()
        paths = [engines.path(f"engine-{number}") for number in range(len(_CASES))]
        cases = [[str(path), *case] for path, case in zip(paths, _CASES, strict=True)]
        call = json.dumps([name, options_of(open_engine), durability.value, cases, _TOLD])
        ended = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-c", _WRITE, call], capture_output=True, text=True, check=False
        )

        assert ended.returncode == 0, ended.stderr
        codes = list(map(int, ended.stdout.split()))
        for path, case, code in zip(paths, _CASES, codes, strict=True):
            assert code in (0, _TOLD, -signal.SIGXFSZ), f"{case}: {ended.stderr}"
            with open_engine(path) as opened:
                rows = [(key, len(value)) for key, value in pairs_of(opened)]
                whole = [(b"a", 5), (b"b", case.value_bytes), (b"c", 5)]

                assert rows == whole or (code and rows == [(b"a", 6), (b"b", 6)]), case
                opened.apply({b"later": b"v"}, durability)

                assert opened.get(b"later") == b"v"
