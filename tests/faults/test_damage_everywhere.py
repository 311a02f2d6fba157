"""Every file of every kind of directory, damaged in every way, opened by a process of its own.

The right answers are two: what the store held at the offset that it says it is at, or an error of
our tree that names a path. Everything else is a violation: other rows, an error of somebody else,
an abort of the driver, and no answer at all within the limit.
"""

import json
import multiprocessing
import os
import random
import select
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from damaged_reader import OTHER, SOURCE, STORE, row
from forked_programs import Forked

import statestores as ss
from statestores import failpoints
from statestores.files.directory_lock import LOCK_FILE
from statestores.logged_store import open_logged_store
from statestores.tasks import open_task

_SEED = 1310
_COPIES = 20
_SOAK_COPIES = 1_000
_LIMIT_SECONDS = 60.0
_COMMITS = 12
_SESSIONS = 3
_KINDS = ("closed", "killed", "logged", "task")
_BACKENDS = ("rocksdb", "leveldb", "sqlite")
_KIT = Path(__file__).parent / "kit"


class _Reader:
    """The process that opens the copies; it is begun again after it has died or been stopped."""

    def __init__(self) -> None:
        self._process: Forked | None = None

    def ask(self, kind: str, path: Path) -> dict[str, object]:
        """Return the answer about *path*, or what became of the process."""
        if self._process is None:
            given, self._requests = multiprocessing.Pipe(duplex=False)
            self._process = Forked(_KIT / "damaged_reader.py", given=given)
            given.close()
        os.write(self._requests.fileno(), f"{kind} {path}\n".encode())
        ready, _, _ = select.select([self._process.stdout], [], [], _LIMIT_SECONDS)
        line = self._process.stdout.readline() if ready else ""
        if line:
            answer: dict[str, object] = json.loads(line)
            return answer
        code = self.close()
        return {"wrong": f"it ended with {code}" if ready else "no answer"}

    def close(self) -> int | None:
        """Stop the process, and return how it ended."""
        if self._process is None:
            return None
        process, self._process = self._process, None
        self._requests.close()
        process.kill()
        with process:
            return process.wait()


@pytest.fixture(scope="module")
def reader() -> Iterator[_Reader]:
    reader = _Reader()
    yield reader
    reader.close()


def _commit(store: object, offset: int) -> None:
    assert isinstance(store, ss.KeyValueStore | ss.LoggedStore)
    target = store.store if isinstance(store, ss.LoggedStore) else store
    for number in range(10 * offset, 10 * offset + 10):
        target.put(*row(number))
    store.commit({SOURCE: offset})


def _make_engine(path: Path, backend: str, *, killed: bool) -> None:
    """Leave a store that was opened several times, and closed, or copied in the middle."""
    live = path.with_name(f"{path.name}-live")
    for session in range(_SESSIONS):
        with ss.open_store(live, STORE, backend=backend) as store:
            for turn in range(_COMMITS // _SESSIONS):
                _commit(store, session * _COMMITS // _SESSIONS + turn)
            if killed and session == _SESSIONS - 1:
                shutil.copytree(live, path)
    if not killed:
        live.rename(path)


def _make_logged(path: Path, backend: str) -> None:
    """Leave a state root with a changelog, a snapshot, and the engine."""
    state = ss.StateRoot.create(path)
    state.add_store(STORE, partitions=1)
    for session in range(_SESSIONS):
        with open_logged_store(state, STORE.name, 0, backend=backend) as logged:
            for turn in range(_COMMITS // _SESSIONS):
                _commit(logged, session * _COMMITS // _SESSIONS + turn)
            logged.snapshot()


class _DiedError(Exception):
    """In the place of a process that died."""


def _die() -> None:
    raise _DiedError


def _make_task(path: Path, backend: str) -> None:
    """Leave a task of two stores that died when its last commit was recorded."""
    state = ss.StateRoot.create(path)
    for specification in (STORE, OTHER):
        state.add_store(specification, partitions=1)
    with open_task(state, "0_0", [STORE.name, OTHER.name], backend=backend) as task:
        for offset in range(_COMMITS):
            for number in range(10 * offset, 10 * offset + 10):
                for store in (task.store(STORE.name), task.store(OTHER.name)):
                    store.put(*row(number))
            if offset == _COMMITS - 1:
                failpoints.arm("task.recorded", _die)
            with suppress(_DiedError):
                task.commit({SOURCE: offset})
        failpoints.disarm()


def _make(source: Path, kind: str, backend: str) -> None:
    if kind == "logged":
        _make_logged(source, backend)
    elif kind == "task":
        _make_task(source, backend)
    else:
        _make_engine(source, backend, killed=kind == "killed")


Damage = Callable[[Path, random.Random, list[Path]], None]


def _flip(file: Path, dice: random.Random, others: list[Path]) -> None:
    data = bytearray(file.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    file.write_bytes(data)


def _cut(file: Path, dice: random.Random, others: list[Path]) -> None:
    os.truncate(file, dice.randrange(file.stat().st_size))


def _cut_a_little(file: Path, dice: random.Random, others: list[Path]) -> None:
    os.truncate(file, max(0, file.stat().st_size - dice.choice((1, 8, 60))))


def _zero_a_part(file: Path, dice: random.Random, others: list[Path]) -> None:
    data = file.read_bytes()
    begin = dice.randrange(len(data))
    end = min(len(data), begin + dice.choice((16, 512, 4096)))
    file.write_bytes(data[:begin] + bytes(end - begin) + data[end:])


def _zero(file: Path, dice: random.Random, others: list[Path]) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def _empty(file: Path, dice: random.Random, others: list[Path]) -> None:
    file.write_bytes(b"")


def _delete(file: Path, dice: random.Random, others: list[Path]) -> None:
    file.unlink()


def _replace(file: Path, dice: random.Random, others: list[Path]) -> None:
    file.write_bytes(dice.choice(others).read_bytes())


# A flipped bit is the one that differs from place to place.
_DAMAGES: tuple[Damage, ...] = (
    _flip,
    _flip,
    _flip,
    _cut,
    _cut_a_little,
    _zero_a_part,
    _zero,
    _empty,
    _delete,
    _replace,
)


def _violations(
    kind: str, backend: str, copies: int, reader: _Reader, tmp_path: Path
) -> tuple[list[str], Counter[str]]:
    """Damage so many copies; return what was wrong, and how often which answer was given."""
    source, copy = tmp_path / "source", tmp_path / "copy"
    _make(source, kind, backend)
    files = sorted(
        path.relative_to(source)
        for path in source.rglob("*")
        if path.is_file() and path.name != LOCK_FILE and path.stat().st_size
    )
    dice = random.Random(f"{_SEED} {kind} {backend}")
    cases = [(file, damage) for file in files for damage in dict.fromkeys(_DAMAGES)]
    cases = dice.sample(cases, min(copies, len(cases)))
    cases += [
        (dice.choice(files), dice.choice(_DAMAGES)) for _ in range(max(0, copies - len(cases)))
    ]
    wrong, answers = [], Counter[str]()
    for number, (file, damage) in enumerate(cases):
        shutil.copytree(source, copy)
        damage(copy / file, dice, [copy / other for other in files if other != file])
        answer = reader.ask(kind, copy)
        answers[str(answer.get("error", "whole"))] += 1
        unplaced = "error" in answer and str(tmp_path) not in str(answer["text"])
        if answer.get("wrong") or unplaced:
            wrong.append(f"{number}: {file}, {damage.__name__}: {answer}")
        shutil.rmtree(copy)
    return wrong, answers


@pytest.mark.spec("ENG-14", "LAY-23", "COM-27", "LGS-8", "TSK-10")
@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("kind", _KINDS)
def test_damage_is_an_error_or_harmless(
    kind: str, backend: str, reader: _Reader, tmp_path: Path
) -> None:
    """Some of the files and of the damages; the next test has them all."""
    wrong, answers = _violations(kind, backend, _COPIES, reader, tmp_path)

    assert wrong == []
    assert answers["whole"] < answers.total()


@pytest.mark.soak
@pytest.mark.spec("ENG-14", "LAY-23", "COM-27", "LGS-8", "TSK-10")
@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("kind", _KINDS)
def test_damage_of_every_file(kind: str, backend: str, reader: _Reader, tmp_path: Path) -> None:
    """Every file in every way, and flipped bits until there are enough."""
    wrong, answers = _violations(kind, backend, _SOAK_COPIES, reader, tmp_path)

    assert wrong == [], answers
