"""Window and session stores against a model, over long random lives; a copy follows by replay."""

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from statestores.registry import load_backend
from statestores.semantics import open_on_engine
from statestores.spi import Session, Window
from statestores_conformance.models.retained import RetainedModel

RETENTION_MS = 50

LOOK_EVERY = 10
"""Steps between two looks at everything: as many as there are between two commits."""

SPECIFICATIONS = {
    "window": Window("model", retention_ms=RETENTION_MS, window_size_ms=5),
    "duplicates": Window(
        "model", retention_ms=RETENTION_MS, window_size_ms=5, retain_duplicates=True
    ),
    "session": Session("model", retention_ms=RETENTION_MS),
}

KEYS = (b"", b"\x00", b"a", b"a\x00", b"a\x00\xff", b"b")


def put(
    target: Any, kind: str, key: bytes, time_ms: int, value: bytes | None, number: int
) -> bool | None:
    """Put into a store or into the model, in the way of the kind."""
    start_ms = max(0, time_ms - number % 3)
    if isinstance(target, RetainedModel):
        if kind == "duplicates" and value is None:
            return False
        return target.put(
            key, time_ms, {"window": 0, "duplicates": number, "session": start_ms}[kind], value
        )
    if kind == "session":
        accepted: bool = target.put(key, start_ms, time_ms, value)
    else:
        accepted = target.put(key, value, time_ms)
    return accepted


def found(reader: Any, *, reverse: bool = False) -> list[tuple[bytes, int, bytes]]:
    """Return key, time and value of all that a reader finds, in its order."""
    if hasattr(reader, "fetch_all"):
        windows = reader.fetch_all(reverse=reverse)
        return [(window.key, window.start_ms, window.value) for window in windows]
    sessions = reader.find_all_sessions(reverse=reverse)
    return [(session.key, session.end_ms, session.value) for session in sessions]


def expected(model: RetainedModel) -> list[tuple[bytes, int, bytes]]:
    """Return the same of the model."""
    return [(key, time_ms, value) for (key, time_ms, _), value in model.visible()]


@pytest.mark.spec("WIN-2", "WIN-3", "WIN-6", "WIN-8", "WIN-12", "WIN-16", "WIN-21")
@pytest.mark.spec("SES-2", "SES-3", "SES-8", "SES-13", "SES-16", "COM-17", "COM-7", "ROF-8")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", SPECIFICATIONS)
def test_a_life_is_that_of_the_model(kind: str, seed: int, tmp_path: Path) -> None:
    """Puts in and out of order, deletions, commits, rollbacks, and readers at either isolation."""
    dice = random.Random(seed)
    memory = load_backend("memory")
    specification: Any = SPECIFICATIONS[kind]
    model, committed = RetainedModel(RETENTION_MS), RetainedModel(RETENTION_MS)
    with (
        open_on_engine(memory.open(tmp_path / "store"), specification) as store,
        open_on_engine(memory.open(tmp_path / "copy"), specification) as follower,
    ):
        now = 0
        for number in range(400):
            now += dice.choice((0, 0, 1, 2, 2 * RETENTION_MS if number % 97 == 0 else 0))
            time_ms = max(0, now - (dice.randrange(2 * RETENTION_MS) if dice.random() < 0.3 else 0))
            value = None if dice.random() < 0.2 else b"%d" % number
            key = dice.choice(KEYS)
            # Now and then one window is put again and again, by other keys.
            for again in range(dice.choice((1, 1, 1, 12))):
                order = 100 * number + again
                accepted = put(store, kind, key, time_ms, value, order)

                assert accepted == put(model, kind, key, time_ms, value, order)
                key, value = dice.choice(KEYS) + b"%d" % dice.randrange(9), b"%d" % order
            fate = dice.random()
            if fate < 0.1:
                follower.replay(store.pending_changes())
                store.commit({})
                follower.commit({})
                committed = copy.deepcopy(model)
            elif fate < 0.13:
                store.rollback()
                model = copy.deepcopy(committed)
            if number % LOOK_EVERY == 0:
                assert found(store) == expected(model)
                assert found(store, reverse=True) == expected(model)[::-1]
                if seed % 2:  # from then on, every put is a row at once
                    assert found(store.read_only("read_uncommitted")) == expected(model)
                assert found(store.read_only()) == expected(committed)
                assert found(follower) == expected(committed)
                assert store.stream_time_ms == model.stream_time_ms
