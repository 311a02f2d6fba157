"""A directory is removed, also while another process puts files into it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statestores.files.tree_removal import GONE_PREFIX, remove_tree
from statestores.staging.operator_file import remove_other_outputs


def _remove_outputs(directory: Path) -> None:
    remove_other_outputs(directory.parent, "kept")


@pytest.mark.parametrize("remove", [remove_tree, _remove_outputs])
def test_a_file_that_comes_meanwhile_does_not_fail_the_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remove: Callable[[Path], None]
) -> None:
    """A second attempt of a task failed a micro-batch that counted: "Directory not empty"."""
    directory = tmp_path / "operator" / "write"
    directory.mkdir(parents=True)
    (directory / "first").touch()
    take_away, late = os.rmdir, list[Path]()

    def write_meanwhile(path: Any, **options: Any) -> None:
        if not late:
            late.append(directory / "late")
            directory.mkdir(exist_ok=True)
            late[0].touch()
        take_away(path, **options)

    monkeypatch.setattr(os, "rmdir", write_meanwhile)
    remove(directory)

    assert list(directory.parent.rglob("*")) == [directory, *late]
    remove(directory)
    assert list(directory.parent.iterdir()) == []


def test_what_is_not_there_is_removed(tmp_path: Path) -> None:
    """Somebody else was faster."""
    remove_tree(tmp_path / "write")

    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_has_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes half of it for a whole one."""

    def refuse(path: Any, **_: Any) -> None:
        raise PermissionError(str(path))

    (tmp_path / "write").mkdir()
    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(PermissionError):
        remove_tree(tmp_path / "write")

    (left,) = tmp_path.iterdir()
    assert left.name.startswith(GONE_PREFIX)
