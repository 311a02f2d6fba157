"""Copies that nobody keeps: how long they stay, and that what is left of them is no copy."""

from pathlib import Path

import pytest
from dying import Died, die

from statestores import failpoints
from statestores.files.directory_lock import DirectoryLock
from statestores.processing.local.sharing import left_copies
from statestores.processing.local.sharing.left_copies import LeftCopies

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


class _Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def _make(directory: Path, *copies: str) -> None:
    for copy in copies:
        engine = directory / copy / "engine"
        engine.mkdir(parents=True)
        (engine / "data").write_bytes(bytes(1_000))


def _there(directory: Path) -> set[str]:
    return {
        "/".join(each.relative_to(directory).parts[:3]) for each in directory.glob("*/*/*/engine")
    }


@pytest.mark.spec("PRC-93")
def test_a_copy_goes_when_nobody_has_kept_it_for_long(tmp_path: Path) -> None:
    """Of the own place those that are kept stay, and of places of others all of them."""
    clock = _Clock()
    _make(tmp_path, "0/counts/0", "0/counts/1", "0/totals/1", "1/counts/0", "2/counts/0")
    left = LeftCopies(tmp_path, clock=clock)
    own, others = DirectoryLock.acquire(tmp_path / "0"), DirectoryLock.acquire(tmp_path / "1")
    kept = {("counts", 0), ("totals", 1)}
    left.remove(tmp_path / "0", kept)
    clock.seconds += left_copies.KEPT_SECONDS - 1
    left.remove(tmp_path / "0", kept)
    before = _there(tmp_path)
    clock.seconds += 1
    left.remove(tmp_path / "0", {("counts", 0)})  # it looks every half a minute
    clock.seconds += 30
    left.remove(tmp_path / "0", {("counts", 0)})
    after = _there(tmp_path)
    others.release()
    own.release()

    assert len(before) == 5
    assert after == {"0/counts/0", "0/totals/1", "1/counts/0"}
    assert not (tmp_path / "2" / "counts").exists()
    assert not (tmp_path / "0" / "@gone").exists()


@pytest.mark.spec("PRC-93")
def test_a_copy_that_is_kept_again_stays(tmp_path: Path) -> None:
    """The time begins anew: a task that comes and goes leaves its copy warm."""
    clock = _Clock()
    _make(tmp_path, "0/counts/0")
    left = LeftCopies(tmp_path, clock=clock)
    own = DirectoryLock.acquire(tmp_path / "0")
    for kept in (set(), {("counts", 0)}, set()):
        left.remove(tmp_path / "0", kept)
        clock.seconds += left_copies.KEPT_SECONDS - 1
    own.release()

    assert _there(tmp_path) == {"0/counts/0"}


@pytest.mark.spec("PRC-93")
def test_a_removal_that_is_killed_leaves_no_half_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies there is nobody's, and goes with the next look."""
    monkeypatch.setattr(left_copies, "KEPT_SECONDS", 0.0)
    _make(tmp_path, "0/counts/0", "0/counts/1")
    failpoints.arm("copies.renamed", die)
    with pytest.raises(Died):
        LeftCopies(tmp_path).remove(None, ())
    failpoints.disarm()
    killed = _there(tmp_path)
    LeftCopies(tmp_path).remove(None, ())

    assert len(killed) == 2
    assert sum("@gone" in each for each in killed) == 1
    assert _there(tmp_path) == set()
