"""A state root that somebody else writes, read from outside."""

import shutil
from pathlib import Path

import pytest
from served_shop import COUNTS, WORDS, Shop, home

import statestores as ss
from statestores.errors import (
    ChangelogCorruptedError,
    StoreMismatchError,
    StoreNotFoundError,
    StoreReshardedError,
)
from statestores.resharding import reshard
from statestores.serving import FollowedRoot
from statestores.serving.answers import Answers
from statestores.serving.limits import Deadline
from statestores.serving.query import Query
from statestores.serving.served import instance_of


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


@pytest.mark.spec("LAY-35")
def test_a_changelog_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    """Beside its engine, it was said never to have been there: "open it as a logged store"."""
    root = ss.StateRoot.create(tmp_path / "state")
    root.add_store(COUNTS, partitions=1)
    with ss.open_logged_store(root, "counts", 0) as store:
        store.store.put("a", 1)
        store.commit({})
    shutil.rmtree(root.partition("counts", 0).changelog)

    with pytest.raises(StoreMismatchError, match=r"is gone: .*put the partition back"):
        FollowedRoot(root)


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


@pytest.mark.spec("SRV-27", "SRV-19")
def test_a_damaged_changelog_hides_no_other(followed: FollowedRoot, own_shop: Shop) -> None:
    """The page was an error, and the instance gone, for all stores, where one could not be read.

    Whoever lists what is here, or announces it, asks for all lags at once, and was given the error
    of the first. Reads of other partitions failed with it, too, as soon as they had to catch up.
    """
    answers = Answers(followed)
    for name in followed.store_names():
        followed.catch_up(name)
    damaged, whole = WORDS[0], next(word for word in WORDS if home(word) != home(WORDS[0]))
    changelog = own_shop.root.partition("counts", home(damaged)).changelog
    [segment] = changelog.glob("*.log")
    segment.write_bytes(b"no segment" * 20)
    own_shop.put(whole, 100, 30)

    assert count(answers, whole) == 100
    with pytest.raises(ChangelogCorruptedError, match="is damaged at byte 0"):
        count(answers, damaged)
    parts = instance_of(followed, "one").partitions
    assert [each.offset_lag for _, each in sorted(parts["counts"].items())] == [
        None if number == home(damaged) else 0 for number in range(2)
    ]
    assert {each.offset_lag for each in parts["rates"].values()} == {0}
    # Each store is a task of its own here, with a partition: of that one nothing is told.
    manager = followed._manager
    assert len(manager.task_offset_sums()) == len(manager.states) - 1


@pytest.mark.spec("SRV-27")
def test_a_store_that_is_resharded_hides_no_other(followed: FollowedRoot, own_shop: Shop) -> None:
    """What was opened before says so of that store, and serves the others as before."""
    followed.catch_up("rates")
    own_shop.manager.close()
    reshard(own_shop.root, "counts", 3)

    assert {each.offset_lag for each in followed.partitions("counts").values()} == {None}
    assert {each.offset_lag for each in followed.partitions("rates").values()} == {0}
    with pytest.raises(StoreReshardedError, match="open the state root again"):
        count(Answers(followed), "w07")
