"""A copy of a partition that a reshard has replaced, or that is gone."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.changelog import changelog_partition
from statestores.errors import (
    InvalidArgumentError,
    StoreMismatchError,
    StoreNotFoundError,
    StoreReshardedError,
)
from statestores.resharding import reshard
from statestores.tasks import open_standby
from statestores.tasks.copying.changelog_gap import is_left_behind
from statestores.tasks.copying.copy_source import copy_source
from statestores.tasks.lag import LagInfo, lag_behind


@pytest.mark.spec("STB-1")
@pytest.mark.parametrize("ask", ["lag", "missing", "left behind"])
def test_a_copy_of_a_partition_that_was_replaced_is_told(root: ss.StateRoot, ask: str) -> None:
    """Its directory is gone: it was taken for one whose writer has not begun, and followed on."""
    directory, specification = root.partition("counts", 0), root.store("counts").specification
    source = copy_source(root, "counts", 0)
    asked: dict[str, Any] = {
        "lag": lambda store: lag_behind(7, directory, specification),
        "missing": lambda store: source.missing(store).__enter__(),
        "left behind": lambda store: is_left_behind(
            store, directory, changelog_partition("counts", 0)
        ),
    }
    reshard(root, "counts", 5)
    with (
        ss.open_store(root.path / "copy", specification, backend="memory") as copy,
        pytest.raises(StoreReshardedError),
    ):
        asked[ask](copy)


@pytest.mark.spec("STB-1", "TSK-7")
def test_a_copy_of_what_nobody_has_begun_is_not_behind(root: ss.StateRoot) -> None:
    """It goes on where it is, and its lag is none."""
    specification = root.store("counts").specification

    assert lag_behind(0, root.partition("counts", 0), specification) == LagInfo(0, 0)


@pytest.mark.spec("STB-2", "LAY-35")
@pytest.mark.parametrize("gone", ["0/changelog", "0", ".", ".."])
def test_a_copy_of_what_is_gone_does_not_say_that_it_has_everything(
    root: ss.StateRoot, tmp_path: Path, gone: str
) -> None:
    """A disk that is not mounted any more, or a directory that was removed under `serve`.

    Nothing was taken for a writer that has not begun: the copy followed on with a lag of 0, for
    ever, and whoever asked for fresh rows got these.
    """
    with ss.open_logged_store(root, "counts", 0, backend="memory") as counts:
        counts.store.put("a", 1)
        counts.commit({})
    with open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as standby:
        standby.poll()
        shutil.rmtree((root.path / "counts" / gone).resolve())

        with pytest.raises(StoreMismatchError, match="is gone"):
            standby.poll()
        with pytest.raises(StoreMismatchError, match="is gone"):
            _ = standby.lag
        assert dict(standby.read_only(include_stale=True).range()) == {"a": 1}  # type: ignore[attr-defined]
    with (
        open_standby(root, "counts", 0, tmp_path / "copy", backend="sqlite") as standby,
        pytest.raises(StoreMismatchError, match="is gone"),
    ):
        standby.poll()


def test_a_copy_is_of_a_partition_that_there_is(root: ss.StateRoot) -> None:
    """Whoever asks for another one is told how many there are, before anything is opened."""
    with pytest.raises(InvalidArgumentError, match="partitions 0 to 2"):
        copy_source(root, "counts", 3)
    with pytest.raises(StoreNotFoundError, match="no store 'typo'"):
        copy_source(root, "typo", 0)
