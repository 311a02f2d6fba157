"""``kill -9`` at every step of a reshard: the store has its old partitions, or its new ones."""

import random
import shutil
import signal
from pathlib import Path

import pytest
from dictionary import SPECIFICATIONS, Written, by_repr
from forked_programs import run

from statestores.errors import StoreMismatchError
from statestores.failpoints import FAILPOINTS
from statestores.resharding import reshard
from statestores.state_root import StateRoot
from statestores.verification import verify

_PROGRAM = """
import os, signal, sys
from functools import partial
from statestores.failpoints import arm
from statestores.resharding import reshard

root, failpoint, at, to = sys.argv[1:]
arm(failpoint, partial(os.kill, os.getpid(), signal.SIGKILL), at=int(at))
reshard(root, "kept", 3, to=to or None)
"""

_STEPS = [
    *((name, 1) for name in sorted(FAILPOINTS) if name.startswith("reshard.")),
    ("reshard.retired", 3),
    ("snapshot.data-written", 2),
    ("changelog.segment.renamed", 2),
    ("json.durable", 1),
    ("json.renamed", 1),
]
"""The steps of its own; a new partition half there; and the file that is the commit point."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Give a store of two partitions, to be copied."""
    root = tmp_path_factory.mktemp("original") / "root"
    StateRoot.create(root).add_store(SPECIFICATIONS["versioned"], partitions=2)
    written = Written(root, SPECIFICATIONS["versioned"], "sqlite")
    written.put(random.Random(5), 80)
    return written


def _copy(original: Written, root: Path) -> Written:
    shutil.copytree(original.root, root)
    copied = Written(root, original.specification, original.backend)
    copied.model, copied.time_ms = original.model, original.time_ms
    return copied


@pytest.mark.spec("RSH-1", "RSH-13")
@pytest.mark.parametrize(("failpoint", "at"), _STEPS)
def test_a_killed_reshard_leaves_the_old_partitions_or_the_new_ones(
    original: Written, tmp_path: Path, failpoint: str, at: int
) -> None:
    """Whoever opens it next reads everything, and another reshard ends it or cleans up."""
    written = _copy(original, tmp_path / "root")
    content = by_repr(written.model.shown())
    ended = run(_PROGRAM, tmp_path / "root", failpoint, at, "")

    assert ended.returncode == -signal.SIGKILL, ended.stderr
    counts = StateRoot.open(tmp_path / "root").store("kept")
    noted = failpoint in {"json.renamed", "reshard.noted", "reshard.retired"}
    assert (counts.partitions, counts.generation) == ((3, 1) if noted else (2, 0))
    assert written.shown() == content
    assert [each for each in verify(tmp_path / "root") if each.is_failure] == []
    reshard(tmp_path / "root", "kept", 3)

    assert StateRoot.open(tmp_path / "root").store("kept").partitions == 3
    assert written.shown() == content
    assert sorted(each.name for each in (tmp_path / "root" / "kept").iterdir()) == ["generation-1"]


@pytest.mark.spec("RSH-11", "RSH-13")
@pytest.mark.parametrize(("failpoint", "at"), [("reshard.built", 1), ("reshard.noted", 1)])
def test_a_killed_reshard_into_another_root_leaves_all_or_nothing_there(
    original: Written, tmp_path: Path, failpoint: str, at: int
) -> None:
    """What lies there and is not noted goes with the next one."""
    other = tmp_path / "other"
    ended = run(_PROGRAM, original.root, failpoint, at, other)

    assert ended.returncode == -signal.SIGKILL, ended.stderr
    there = Written(other, original.specification, "sqlite")
    if failpoint == "reshard.built":
        assert StateRoot.open(other).stores == {}
        # A store that was added then had taken these partitions for its own, whatever they held.
        with pytest.raises(StoreMismatchError, match="a reshard that has not ended"):
            StateRoot.open(other).add_store(original.specification, partitions=3)
        reshard(original.root, "kept", 3, to=other)
    assert there.shown() == by_repr(original.model.shown())
    assert original.shown() == by_repr(original.model.shown())
    assert [each for each in verify(other) if each.is_failure] == []
