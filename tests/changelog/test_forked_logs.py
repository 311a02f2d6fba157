"""Changelogs in a forked child, whose files they are, and who may read them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_log import write

from statestores.changelog import FileChangelog, file_log, log_reader
from statestores.changelog.log_reader import _SettledTails
from statestores.changelog.segments.segment_directory import list_segments
from statestores.errors import StoreClosedError

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


@pytest.fixture
def _open_to_all() -> Iterator[None]:
    """Have the process take no right away from the files that it makes."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.spec("COM-44", "ASM-9")
def test_in_a_forked_child_a_changelog_is_its_parent_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was registered when it was opened, and refuses with the reason."""
    registered: list[object] = []
    monkeypatch.setattr(file_log, "disown_after_fork", registered.append)
    log = FileChangelog.create(tmp_path, "key-value")
    log.disown()  # as the child does

    assert registered == [log]
    with pytest.raises(StoreClosedError, match="start the process by 'spawn'"):
        log.check_open()


@pytest.mark.spec("ENG-43")
def test_a_forked_child_waits_for_no_reader_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that is not there had the tails of segments, which every opening looks for."""
    registered: list[object] = []
    monkeypatch.setattr(log_reader, "renew_after_fork", registered.append)
    tails = _SettledTails()
    assert registered == [tails]
    tails._lock.acquire()
    tails.renew_after_fork()  # as the child does

    assert tails._lock.acquire(blocking=False)


@pytest.mark.usefixtures("_open_to_all")
def test_the_files_of_a_changelog_are_written_by_their_owner_alone(tmp_path: Path) -> None:
    """And may be read by everybody whom the directory lets in, as those of an engine."""
    write(tmp_path)
    (segment,) = list_segments(tmp_path).segments

    assert stat.S_IMODE(segment.path.stat().st_mode) == 0o644
