"""Isolation: whatever threads read while the owner commits is a state that was committed."""

import random
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from statestores.spi import Engine, Isolation
from statestores_conformance.engine.stores import OPENERS, OpenOverEngine
from statestores_conformance.histories.reader_histories import Commits, Read, State, contradictions
from statestores_conformance.intensity import seed, trials
from statestores_conformance.subjects.engines import EngineFixtures
from statestores_conformance.subjects.reading_threads import READERS, reading_threads
from statestores_conformance.subjects.stores import CHANGELOG, KEYS, StoreUnderTest

_COMMITS = trials(60, least=20)
_SOAK_COMMITS = 3_000
_SEED = seed(67)


def _scan(opened: StoreUnderTest) -> dict[bytes, bytes]:
    return opened.latest(Isolation.READ_COMMITTED)


def _get_many(opened: StoreUnderTest) -> list[bytes | None]:
    return opened.latest_of_keys(Isolation.READ_COMMITTED)


def _offset(opened: StoreUnderTest) -> int | None:
    return opened.facade().committed_offset(CHANGELOG)


def _committed_content(opened: StoreUnderTest) -> State:
    content = opened.store.committed_content()
    latest: dict[bytes, bytes | None] = {}
    with closing(content.changes) as chunks:
        for changes in chunks:  # of one key in time order, so that the last one stays
            latest.update(zip(changes.keys, changes.values, strict=True))
    present = {key: value for key, value in latest.items() if value is not None}
    return State(content.offsets.get(CHANGELOG), present)


_READS: dict[str, tuple[Callable[[StoreUnderTest], Any], Callable[[State], Any]]] = {
    "a scan": (_scan, lambda state: state.content),
    "get_many": (_get_many, lambda state: [state.content.get(key) for key in KEYS]),
    "committed_offset": (_offset, lambda state: state.offset),
    "committed_content": (_committed_content, lambda state: state),
}


@pytest.mark.level("concurrent")
class HistoryTests(EngineFixtures):
    """Threads that record what they read, over each kind of store."""

    @pytest.mark.spec("ROF-5", "ROF-6", "ROF-7", "COM-36", "ENG-11", "COM-1")
    @pytest.mark.parametrize("open_store", OPENERS.values(), ids=OPENERS)
    def test_every_read_is_of_one_commit_and_none_goes_back(
        self, engine: Engine, open_store: OpenOverEngine
    ) -> None:
        """Scans, reads of many keys, offsets and whole contents, from several threads."""
        assert _contradictions(open_store(engine), _COMMITS) == []

    @pytest.mark.soak
    @pytest.mark.spec("ROF-6", "ROF-7", "COM-36")
    @pytest.mark.parametrize("open_store", OPENERS.values(), ids=OPENERS)
    def test_every_read_of_many_is_of_one_commit(
        self, engine: Engine, open_store: OpenOverEngine
    ) -> None:
        """The same for long enough to meet the rare moments."""
        assert _contradictions(open_store(engine), _SOAK_COMMITS) == []


def _contradictions(opened: StoreUnderTest, number_of_commits: int) -> list[str]:
    """Commit random changes while threads read; return what no order of events explains."""
    commits = Commits()
    commits.begin(State(None, {}))
    commits.end()
    histories: dict[int, list[Read]] = defaultdict(list)
    turn = list(_READS.items())

    def read() -> None:
        history = histories[threading.get_ident()]
        name, (look, of) = turn[len(history) % len(turn)]
        returned = commits.returned
        result = look(opened)
        history.append(Read(name, result, of, returned, commits.begun))

    dice = random.Random(_SEED)  # noqa: S311  # repeatable, not secret
    content: dict[bytes, bytes] = {}
    with reading_threads(read):
        for number in range(number_of_commits):
            for key in dice.sample(KEYS, dice.randrange(1, len(KEYS) + 1)):
                if key in content and dice.random() < 0.3:
                    opened.erase(key, number)
                    del content[key]
                else:
                    opened.write(key, number)
                    content[key] = b"%d" % number
            commits.begin(State(number, dict(content)))
            opened.store.commit({CHANGELOG: number})
            commits.end()
    opened.store.close()

    assert len(histories) <= READERS
    return [line for history in histories.values() for line in contradictions(commits, history)]
