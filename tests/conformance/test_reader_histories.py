"""The judge of histories itself: it accepts what can be explained, and nothing else."""

import re

import pytest

from statestores_conformance.histories.reader_histories import Commits, Read, State, contradictions


@pytest.fixture
def commits() -> Commits:
    """Three commits: nothing, 1, 2."""
    commits = Commits()
    for offset, value in ((None, None), (1, b"1"), (2, b"2")):
        commits.begin(State(offset, {} if value is None else {b"k": value}))
        commits.end()
    return commits


def read(result: object, returned: int, begun: int) -> Read:
    """Return a read of the content."""
    return Read("a scan", result, lambda state: state.content, returned, begun)


def test_a_read_may_see_the_commit_under_way_or_the_one_before(commits: Commits) -> None:
    """While commit 2 ran, both its state and that of commit 1 are right."""
    history = [read({b"k": b"1"}, 1, 2), read({b"k": b"2"}, 1, 2)]

    assert contradictions(commits, history) == []


@pytest.mark.parametrize(
    ("history", "why"),
    [
        ([read({b"k": b"3"}, 0, 2)], "none"),
        ([read({b"k": b"2"}, 0, 1)], r"from 0 to 1, and it is that of \[2\]"),
        ([read({b"k": b"1"}, 2, 2)], r"from 2 to 2, and it is that of \[1\]"),
        ([read({b"k": b"2"}, 1, 2), read({b"k": b"1"}, 1, 2)], "read 1"),
    ],
    ids=["torn", "not begun yet", "promised before", "going back"],
)
def test_what_cannot_be_explained_is_found(commits: Commits, history: list[Read], why: str) -> None:
    """A state that never was, one too early, one too late, and one after a later one."""
    (found,) = contradictions(commits, history)

    assert re.search(why, found)
