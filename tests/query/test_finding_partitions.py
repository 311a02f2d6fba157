"""Which partitions a query finds, and what it says of those that it does not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import statestores as ss
from statestores.errors import InvalidStateStoreError, UnknownStateStoreError
from statestores.query import LocalPartitions
from statestores.query.read_terms import ReadTerms

from .conftest import Members

COUNTS = ss.KeyValue("s", key=ss.utf8, value=ss.int64)


class Moving(Members):
    """A store of which some partitions are on their way."""

    moving: dict[int, str]

    def unready(self, name: str) -> dict[int, str]:
        """Return what each of them is doing."""
        return self.moving


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Moving]:
    """Have partitions 0 and 2; partition 1 is being restored."""
    made = Moving(tmp_path, COUNTS)
    made.here, made.moving = {0, 2}, {1: "restoring"}
    yield made
    made.close()


def found(members: Moving, partition: int | None = None) -> LocalPartitions[Any]:
    """Look for the store, or for one partition of it."""
    return LocalPartitions(members, "s", lambda _: True, ReadTerms(partition=partition))


@pytest.mark.spec("QRY-2")
def test_a_read_of_one_partition_does_not_wait_for_another(members: Moving) -> None:
    """What is here is found, whatever the others do."""
    assert sorted(found(members).find()) == [0, 2]
    assert sorted(found(members, 2).find_all()) == [2]


@pytest.mark.spec("QRY-2")
@pytest.mark.parametrize("partition", [None, 1])
def test_a_read_of_all_says_which_partition_is_missing(
    members: Moving, partition: int | None
) -> None:
    """It would be a short answer that looks complete."""
    with pytest.raises(InvalidStateStoreError, match="partition 1 of 's' is restoring here"):
        found(members, partition).find_all()


@pytest.mark.spec("QRY-2")
def test_what_became_ready_meanwhile_is_found(members: Moving) -> None:
    """The list of those that are moving may be older than what is here."""
    members.here = {0, 1, 2}

    assert sorted(found(members).find_all()) == [0, 1, 2]


@pytest.mark.spec("QRY-2")
def test_a_partition_that_is_nowhere_here_is_told_from_one_that_moves(members: Moving) -> None:
    """The first is looked for elsewhere, the second is worth another try."""
    members.here = set()
    with pytest.raises(InvalidStateStoreError, match="partition 1 of 's' is restoring here"):
        found(members, 1).find()
    with pytest.raises(InvalidStateStoreError, match="partition 0 of 's' is not here now"):
        found(members, 0).find()


@pytest.mark.spec("QRY-1")
def test_a_store_of_another_type_is_refused_where_it_is_found(members: Moving) -> None:
    """What is here may have been opened as something else than what is written down."""
    asked: LocalPartitions[Any] = LocalPartitions(members, "s", lambda _: False)
    with pytest.raises(UnknownStateStoreError, match="asked for as another type"):
        asked.find()
