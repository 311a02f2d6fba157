"""A copy of a partition that a reshard has replaced."""

from typing import Any

import pytest

import statestores as ss
from statestores.changelog import changelog_partition
from statestores.errors import (
    InvalidArgumentError,
    StoreNotFoundError,
    StoreReshardedError,
)
from statestores.resharding import reshard
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

    assert lag_behind(7, root.partition("counts", 0), specification) == LagInfo(7, 7)


def test_a_copy_is_of_a_partition_that_there_is(root: ss.StateRoot) -> None:
    """Whoever asks for another one is told how many there are, before anything is opened."""
    with pytest.raises(InvalidArgumentError, match="partitions 0 to 2"):
        copy_source(root, "counts", 3)
    with pytest.raises(StoreNotFoundError, match="no store 'typo'"):
        copy_source(root, "typo", 0)
