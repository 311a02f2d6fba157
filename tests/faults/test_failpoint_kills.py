"""``kill -9`` at every named failpoint: what the next process finds is what was promised."""

import os
import signal
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from forked_nursery import ForkedNursery
from judgement import judge_engine, judge_logged, judge_staged
from lives import said

from statestores.errors import MissingDriverError
from statestores.failpoints import FAILPOINTS
from statestores.registry import load_backend
from statestores_conformance.faults.crash_nursery import Nursery

_SOAK = os.environ.get("STATESTORES_SOAK") == "1"
_TIMES = 12 if _SOAK else 2
"""How often a life gets to a failpoint before it is ended there, at most."""

_PATIENCE_SECONDS = 60.0
_BACKENDS = ("sqlite", "rocksdb", "leveldb")

_STAGED = sorted(name for name in FAILPOINTS if name.startswith(("stage.", "publish.")))
_SEEN_BY_BOTH = ["json.written", "json.durable", "json.renamed", "changelog.append.written"]
_BY_OTHERS = (
    *("stage.", "publish.", "vacuum.", "task.", "sink.", "kafka."),
    *("objects.", "operator.", "reset.", "copies.", "reshard.", "native."),
)
"""What staged writes, the crash kit of the suite, and the tests of tasks, of Spark's operators and
of native snapshots come by."""

_LOGGED = sorted(name for name in FAILPOINTS if not name.startswith(_BY_OTHERS))
_PROGRAM = Path(__file__).parent / "kit" / "killed_lives.py"


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Give the process that forks those that are killed."""
    with ForkedNursery(_PROGRAM) as nursery:
        yield nursery


def _end(nursery: Nursery, life: str, directory: Path, failpoint: str, **arguments: object) -> bool:
    """Let a process live until *failpoint*; return whether it came there at all."""
    nursery.start(
        {
            "life": life,
            "root": str(directory / "state"),
            "oracle_path": str(directory / "oracle"),
            "failpoint": failpoint,
            **arguments,
        }
    )
    code = nursery.wait(_PATIENCE_SECONDS)

    assert code in (0, -signal.SIGKILL), nursery.errors()
    return code != 0


def _need(backend: str) -> str:
    try:
        load_backend(backend)
    except MissingDriverError as error:
        pytest.skip(str(error))
    return backend


@pytest.mark.spec("COM-2", "COM-22", "LGS-6", "LOG-10", "LOG-12", "SNP-2", "SNP-11", "SNP-12")
@pytest.mark.parametrize(
    ("failpoint", "backend"), list(zip(_LOGGED, cycle(_BACKENDS), strict=False))
)
def test_a_life_that_ends_at_a_failpoint_leaves_whole_commits(
    nursery: Nursery, tmp_path: Path, failpoint: str, backend: str
) -> None:
    """Before anything is completed the engine is at a commit; afterwards the store has them all."""
    _judge_logged(nursery, tmp_path, failpoint, _need(backend))


@pytest.mark.soak
@pytest.mark.spec("COM-2", "LGS-6", "LOG-10", "SNP-2", "SNP-12")
@pytest.mark.parametrize("failpoint", _LOGGED)
@pytest.mark.parametrize("backend", _BACKENDS)
def test_every_life_that_ends_at_a_failpoint_leaves_whole_commits(
    nursery: Nursery, tmp_path: Path, failpoint: str, backend: str
) -> None:
    """The same for each backend, many times."""
    _judge_logged(nursery, tmp_path, failpoint, _need(backend))


def _judge_logged(nursery: Nursery, tmp_path: Path, failpoint: str, backend: str) -> None:
    """End lives at *failpoint*, one after the other over one store, and judge each."""
    oracle, offset, ended = tmp_path / "oracle", None, 0
    for _ in range(_TIMES):
        oracle.unlink(missing_ok=True)
        at = ended + 1
        ended += _end(nursery, "logged", tmp_path, failpoint, at=at, backend=backend, first=0)
        promised = max(said(oracle, "promise"), default=offset)
        begun = max(said(oracle, "intent"), default=offset)

        assert judge_engine(tmp_path / "state") == [], f"{failpoint}, time {at}"
        offset, wrong = judge_logged(tmp_path / "state", promised, begun, backend=backend)
        assert wrong == [], f"{failpoint}, time {at}"

    assert ended, f"{failpoint} was never reached"


@pytest.mark.spec("COM-2")
@pytest.mark.parametrize("failpoint", [*_STAGED, *_SEEN_BY_BOTH])
def test_a_staged_write_that_ends_at_a_failpoint_is_seen_whole_or_not_at_all(
    nursery: Nursery, tmp_path: Path, failpoint: str
) -> None:
    """Over both partitions: readers see it so before anybody finishes it, and writers after."""
    oracle, write, ended = tmp_path / "oracle", 0, 0
    for _ in range(_TIMES + 1):
        oracle.unlink(missing_ok=True)
        at = ended + 1
        ended += _end(
            nursery, "staged", tmp_path, failpoint, at=at, backend="memory", first=write + 1
        )
        promised = max(said(oracle, "promise"), default=write)
        begun = max(said(oracle, "intent"), default=write)
        write, wrong = judge_staged(tmp_path / "state", promised, begun)

        assert wrong == [], f"{failpoint}, time {at}"

    assert ended, f"{failpoint} was never reached"
