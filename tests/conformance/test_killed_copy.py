"""The copy of an open engine's files that stands for what a kill leaves."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from statestores_conformance.engine.disk.killed_copy import killed_copy

_copytree = shutil.copytree


def test_files_that_a_compaction_replaces_meanwhile_are_copied_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suite called LevelDB false: a table was listed, and gone when it was to be copied."""
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / "000020.ldb").write_bytes(b"old")
    times: list[str] = []

    def compacts(source: Path, to: Path, **options: Any) -> Any:
        times.append("copy")
        if len(times) == 1:  # the old table is listed, and gone
            (engine / "000020.ldb").unlink()
            (engine / "000022.ldb").write_bytes(b"new")
            to.mkdir()
            raise shutil.Error([("000020.ldb", str(to), "no such file")])
        if len(times) == 2:  # all that was listed is copied, and there is one more
            copied = _copytree(source, to, **options)
            (engine / "000024.ldb").write_bytes(b"newer")
            return copied
        return _copytree(source, to, **options)

    monkeypatch.setattr(f"{killed_copy.__module__}.shutil.copytree", compacts)
    copy = killed_copy(engine, tmp_path / "left")
    assert sorted(each.name for each in copy.iterdir()) == ["000022.ldb", "000024.ldb"]
    assert len(times) == 3


def test_what_cannot_be_copied_is_told_at_once(tmp_path: Path) -> None:
    """A directory that is not there does not change while it is copied."""
    with pytest.raises(FileNotFoundError):
        killed_copy(tmp_path / "engine", tmp_path / "left")
