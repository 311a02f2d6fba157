"""Large batches that cannot be finished: the disk is full in the middle, or the log is cut there.

An engine that writes a large batch in pieces is right until something happens between two of them,
and one that goes on after a write that failed is right until it is opened again.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from statestores.errors import StateStoreError
from statestores.spi import Engine
from statestores_conformance.engine.disk.killed_copy import killed_copy
from statestores_conformance.engine.lifecycle.locks import import_path_of
from statestores_conformance.promises import skip_unless_promised
from statestores_conformance.subjects.engines import (
    EngineFixtures,
    Engines,
    OpenEngine,
    durability_of,
    pairs_of,
)
from statestores_conformance.subjects.openers import options_of

_FULL_DISK = """
import json, os, resource, shutil, sys
from pathlib import Path
from statestores.errors import CommitInDoubtError, StateStoreError
from statestores.registry import load_backend
from statestores.spi import Durability

name, options, cases = json.loads(sys.argv[1])


def outcome(apply):
    try:
        apply()
    except CommitInDoubtError:
        return "in doubt"
    except StateStoreError as error:
        return "raised"
    return "returned"


for path, rows, value_bytes, share, durability in cases:
    engine = load_backend(name).open(path, options)
    chosen = Durability(durability)
    batch = {b"row-%06d" % number: bytes([number % 251]) * value_bytes for number in range(rows)}
    engine.apply({b"before": b"v"}, chosen)
    sizes = [file.stat().st_size for file in Path(path).rglob("*") if file.is_file()]
    limit = max(sizes, default=0) + int(share * rows * (value_bytes + 10))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    large = outcome(lambda: engine.apply(batch, chosen))
    try:
        seen = sum(1 for _ in engine.scan(b"row-", b"row."))
    except StateStoreError:
        seen = None
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    shutil.copytree(path, f"{path}, killed")
    after = outcome(lambda: engine.apply({b"after": b"v"}, chosen))
    closed = outcome(engine.close)
    print(json.dumps([large, seen, after, closed]), flush=True)
"""
"""A program whose files may not grow beyond a part of the batch that it applies."""

_LEAVE = """
import json, os, random, sys
from statestores.errors import InvalidArgumentError, StorageError
from statestores.registry import load_backend
from statestores.spi import Durability

name, options, path, seed, size, ahead, accepted, no_room = json.loads(sys.argv[1])
load_backend(name).open(path, options).close()
engine = load_backend(name).open(path, options)
value = random.Random(seed).randbytes(size)
try:
    for first in (value[:ahead], b"v"):
        engine.apply({b"first": first}, Durability.PROCESS_CRASH)
    engine.apply({b"large-0": value}, Durability.PROCESS_CRASH)
except InvalidArgumentError:
    parts = [value[at : at + accepted] for at in range(0, size, accepted)]
    batch = {b"large-%d" % number: part for number, part in enumerate(parts)}
    engine.apply(batch, Durability.PROCESS_CRASH)
except StorageError:
    sys.exit(no_room)
engine.apply({}, Durability.PROCESS_CRASH)
for _ in range(2):
    engine.apply({b"later": b"v"}, Durability.PROCESS_CRASH)
os._exit(0)
"""
"""A program that dies just after batches: long, small, large, empty, small, and small once more.

What an engine does in the background with the large one has hardly begun by then. Where logs are
short it is at an end with the long one, so that the log before the last is not the first of all.
"""

_SEED = 27
_NO_ROOM = 3
AHEAD_BYTES = 200_000
"""How much of the large value is in the batch that comes first."""
_LEFT_BYTES = 20 * 1024 * 1024
_ACCEPTED_BYTES = 10 * 1024 * 1024
"""An engine may refuse a longer value (ENG-25)."""


class _Case(NamedTuple):
    """A batch, and where the disk is full."""

    rows: int
    value_bytes: int
    share: float
    """How much of the batch still fits."""


_CASES = (
    _Case(1, 20 * 1024 * 1024, 0.5),
    _Case(999, 1_000, 0.5),
    _Case(5_000, 1_000, 0.15),
    _Case(5_000, 1_000, 0.5),
    _Case(5_000, 1_000, 0.9),
    _Case(70_000, 20, 0.7),
)

_TORN = {
    "large": {b"row-%06d" % number: b"%d" % number * 20 for number in range(5_000)},
    "all first bytes": {bytes([first]) + b"-row": b"%d" % first * 20 for first in range(256)},
}
"""Batches of many keys, and of a key in every part of the key space."""

_CUTS = (0.0, 0.02, 0.25, 0.5, 0.75, 0.98)
"""Which parts of the last batch are cut off, at least a byte."""


class EngineLargeBatchTests(EngineFixtures):
    """Batches of up to 70,000 rows, and of 20 MiB."""

    @pytest.mark.level("fault-proof")
    @pytest.mark.spec("ENG-7", "ENG-8", "ENG-16", "ENG-28", "ENG-32", "ENG-39")
    def test_a_full_disk_leaves_all_of_a_batch_or_nothing(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine
    ) -> None:
        """What was acknowledged is there after reopening, what was refused is not, in any part.

        Also if the process is killed before it says anything more: a copy has what it leaves.
        """
        pytest.importorskip("resource", reason="the system has no limit on the size of a file")
        durability = durability_of(persistent_engine)
        name = import_path_of(persistent_engine)
        persistent_engine.close()
        paths = [engines.path(f"engine-{number}") for number in range(len(_CASES))]
        cases = [
            [str(path), *case, durability.value] for path, case in zip(paths, _CASES, strict=True)
        ]
        ended = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-c", _FULL_DISK, json.dumps([name, options_of(open_engine), cases])],
            capture_output=True,
            text=True,
            check=False,
        )
        outcomes = [json.loads(line) for line in ended.stdout.splitlines()]

        assert ended.returncode == 0, ended.stderr
        for path, case, outcome in zip(paths, _CASES, outcomes, strict=True):
            _check_full_disk(path, open_engine, case, outcome)

    @pytest.mark.level("fault-proof")
    @pytest.mark.spec("ENG-7", "ENG-27", "ENG-32")
    def test_a_batch_is_not_torn(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """Copied while it was open and cut in the middle of a batch, the log does not have it.

        Kills find an engine that writes some keys before the others only if one comes in between.
        """
        promised = persistent_engine.capabilities.detects_corruption
        skip_unless_promised("detects_corruption", made=promised)
        small = {b"before-%d" % number: b"v" for number in range(3)}
        for name, large in _TORN.items():
            engine = engines.open(name)
            engine.apply(small, durability_of(engine))
            before = _sizes(engines.path(name))
            engine.apply(large, durability_of(engine))
            live = tmp_path / f"{name}, live"
            killed_copy(engines.path(name), live)
            after = _sizes(engines.path(name))
            grown = max(after, key=lambda name: after[name] - before.get(name, 0))
            for share in _CUTS:
                torn = tmp_path / f"{name}, torn at {share}"
                shutil.copytree(live, torn)
                cut = int(share * (after[grown] - before.get(grown, 0)))
                os.truncate(torn / grown, after[grown] - max(1, cut))
                try:
                    with open_engine(torn) as opened:
                        found = dict(pairs_of(opened))
                except StateStoreError:  # the driver cannot tell a torn tail from damage (ENG-36)
                    continue

                assert found in ({}, small, small | large), f"{name}: {cut} bytes cut from {grown}"

    @pytest.mark.level("fault-proof")
    @pytest.mark.spec("ENG-8", "ENG-14", "ENG-27", "ENG-32")
    def test_a_large_batch_is_not_missing_before_a_later_one(
        self, engines: Engines, persistent_engine: Engine, open_engine: OpenEngine, tmp_path: Path
    ) -> None:
        """What a process leaves just after them has both; cut short, it never has the later alone.

        A log that has become too long is followed by another, and until the first one is in other
        files a power failure can take its end and leave the second.
        """
        name = import_path_of(persistent_engine)
        checking = persistent_engine.capabilities.detects_corruption
        persistent_engine.close()
        left = tmp_path / "left"
        value = leave_a_large_batch(name, options_of(open_engine), left, _LEFT_BYTES)

        assert value is not None
        whole = shutil.copytree(left, tmp_path / "whole")
        with open_engine(whole) as opened:
            first, *large, later = pairs_of(opened)

        assert b"".join(part for _, part in large) == value
        assert [first, later] == [(b"first", b"v"), (b"later", b"v")]
        shutil.rmtree(whole)
        for file, size in _sizes(left).items() if checking else ():
            for cut in (1, size // 2, size) if size > _LEFT_BYTES // 4 else ():
                torn = tmp_path / f"{file.name} without {cut}"
                shutil.copytree(left, torn)
                os.truncate(torn / file, size - cut)
                try:
                    with open_engine(torn) as opened:
                        found = pairs_of(opened)
                except StateStoreError:
                    continue

                states = [[], [(b"first", value[:AHEAD_BYTES])], [first]]
                states += [[first, *large], [first, *large, later]]
                assert found in states, torn.name
                shutil.rmtree(torn)


def leave_a_large_batch(
    name: str, options: dict[str, object], path: Path, size: int
) -> bytes | None:
    """Let a process open the engine *name* at *path*, apply batches to it, and die.

    Return what is in the large one, of *size* bytes, or nothing if there is no room for it with
    these *options*. The two before have the key ``b"first"``, a beginning of the large value and
    then ``b"v"``; the one after it has the key ``b"later"``.
    """
    call = [name, options, str(path), _SEED, size, AHEAD_BYTES, _ACCEPTED_BYTES, _NO_ROOM]
    ended = subprocess.run([sys.executable, "-c", _LEAVE, json.dumps(call)], check=False)  # noqa: S603  # our own
    if ended.returncode == _NO_ROOM:
        return None

    assert ended.returncode == 0
    return random.Random(_SEED).randbytes(size)  # noqa: S311  # repeatable


def _check_full_disk(path: Path, open_engine: OpenEngine, case: _Case, outcome: list[Any]) -> None:
    """Compare what an engine said about a batch with what is there when it is opened again."""
    large, seen, after, _closed = outcome
    allowed = {"returned": {case.rows}, "raised": {0}, "in doubt": {0, case.rows}}
    with open_engine(path.with_name(f"{path.name}, killed")) as opened:
        rows = sum(1 for _ in opened.scan(b"row-", b"row."))

        assert opened.get(b"before") == b"v", case
        assert rows in allowed[large], f"{case}: the batch {large}, and a kill leaves {rows} rows"
    with open_engine(path) as opened:
        rows = sum(1 for _ in opened.scan(b"row-", b"row."))

        assert opened.get(b"before") == b"v", case
        assert rows in allowed[large], f"{case}: the batch {large}, and {rows} rows are there"
        assert seen in {None, rows}, f"{case}: {seen} rows were seen, and {rows} are there"
        if after != "in doubt":
            assert (opened.get(b"after") == b"v") == (after == "returned"), case
        opened.apply({b"later": b"v"}, durability_of(opened))

        assert opened.get(b"later") == b"v"


def _sizes(directory: Path) -> dict[Path, int]:
    """Return how large each file below *directory* is."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory): path.stat().st_size for path in files}
