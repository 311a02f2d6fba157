"""A state root that somebody else writes, read from outside."""

from pathlib import Path

import pytest
from served_shop import COUNTS, WORDS, Shop, home

import statestores as ss
from statestores.errors import StoreNotFoundError
from statestores.serving import FollowedRoot
from statestores.serving.answers import Answers
from statestores.serving.limits import Deadline
from statestores.serving.query import Query


def count(answers: Answers, word: str, **how: bool) -> int | None:
    """Return the count of a word, as it would be served."""
    query = Query(store="counts", read="get", key=word.encode(), **how)  # type: ignore[arg-type]
    _, rows = answers.rows(query, Deadline(10_000))
    found = list(rows)
    return None if not found else COUNTS.value.decode(found[0][1])  # type: ignore[union-attr]


@pytest.mark.spec("SRV-19")
def test_a_read_has_everything_that_was_committed_before_it(
    followed: FollowedRoot, own_shop: Shop
) -> None:
    """Copies that follow by themselves once an hour are brought up to the changelog by a read."""
    answers = Answers(followed)
    assert followed.waiting()
    assert count(answers, "w07") == 7
    for number in range(5):
        own_shop.put("w07", 100 + number, 30 + number)
        assert count(answers, "w07", include_stale=True) == (7 if number == 0 else 99 + number)
        assert count(answers, "w07") == 100 + number
    for name in followed.store_names():
        followed.catch_up(name)

    assert followed.waiting() == ()
    assert {each.role.value for each in followed.partitions("counts").values()} == {"standby"}


@pytest.mark.spec("SRV-19", "QRY-9")
def test_a_position_has_everything_too(followed: FollowedRoot, own_shop: Shop) -> None:
    """`about` gave the position of an older commit, beside the stream time of a newer one.

    A bound is judged by every read, but a position was taken before, of copies as they were: what
    was acknowledged a moment ago had not arrived, by the position of what was read.
    """
    answers = Answers(followed)
    for number in range(3):
        own_shop.put("w07", 100 + number, 30 + number)
        asked = Query(store="counts", read="about", partition=home("w07"))
        assert answers.about(asked)["position"] == [["words", 0, 30 + number]]


@pytest.mark.spec("SRV-19")
def test_no_lock_is_taken(own_shop: Shop, tmp_path: Path) -> None:
    """The owner may close and open as it likes; what it left is still read."""
    with FollowedRoot(own_shop.root, backend="memory", stores=["counts"]) as root:
        own_shop.manager.assign([])
        own_shop.manager.assign(["0_0", "0_1"])
        own_shop.manager.close()
        answers = Answers(root)

        assert [count(answers, word) for word in WORDS] == list(range(20))
        assert root.store_names() == ("counts",)


@pytest.mark.spec("SRV-19")
def test_what_only_an_engine_has_is_not_served_as_nothing(tmp_path: Path) -> None:
    """A partition without a changelog would look empty."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=1)
    with ss.open_store(root.partition("counts", 0).path, COUNTS) as store:
        store.put("a", 1)
        store.commit({})

    with pytest.raises(StoreNotFoundError, match="nobody but its owner"):
        FollowedRoot(root)
    with pytest.raises(StoreNotFoundError):
        FollowedRoot(root, stores=["other"])
