"""The steps of a topology on a state root in an object store, without Spark."""

import random
from pathlib import Path
from typing import Any

import pytest
from chain_without_spark import QUERY, ChainRun, Given
from chained_topologies import (
    DriverDiedError,
    countdown,
    counted,
    die,
    micro_batches,
    three_parts,
)

import statestores as ss
from statestores import failpoints
from statestores.errors import StoreMismatchError, TopologyMismatchError
from statestores.processing import Record
from statestores.spark.given_root import GivenRoot

STEPS = ("operator.staged", "operator.claimed", "operator.committed", "operator.carried-out")


def state_of(root: GivenRoot, store: str) -> dict[Any, Any]:
    """Return the rows of a store in all partitions, by their owners."""
    state = root.open()
    found: dict[Any, Any] = {}
    for number in range(state.store(store).partitions):
        with ss.open_logged_store(state, store, number, directory="x", backend="memory") as logged:
            rows = dict(logged.store.range())
        assert not rows.keys() & found.keys()
        found |= {key: row.value for key, row in rows.items()}
    return found


@pytest.mark.spec("SPK-2", "OBJ-44")
def test_a_driver_that_dies_between_two_steps_is_continued(
    tmp_path: Path, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step of a commit of each part, in turn: nothing is lost, and nothing counts twice."""
    monkeypatch.chdir(tmp_path)
    for step in STEPS:
        with subtests.test(step):
            rng = random.Random(step)
            root, deaths = GivenRoot(f"memory://chain/{step}"), 0
            batches = micro_batches(rng, 3)
            for number, given in enumerate(batches):
                for at in range(1, 60):
                    run = ChainRun(three_parts(), root, local=tmp_path / step, partitions=2)
                    failpoints.arm(step, die, at=at)
                    try:
                        came = run.run(number, given)
                        break
                    except DriverDiedError:
                        deaths += 1
                    finally:
                        failpoints.disarm()
                run = ChainRun(three_parts(), root, local=tmp_path / step, partitions=2)
                assert run.run(number, given) == came
            words, numbers = counted(batches)
            assert deaths >= len(batches)
            assert state_of(root, "counts") == words
            of_counts = state_of(root, "of-counts")
            assert {key: value for key, value in of_counts.items() if value} == numbers


@pytest.mark.spec("SPK-2", "SPK-5", "OBJ-44")
def test_a_state_belongs_to_one_topology_and_one_checkpoint(
    tmp_path: Path, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a step has committed is carried out first, also by a new query; others are refused."""
    monkeypatch.chdir(tmp_path)
    for query in (QUERY, QUERY[:-1] + "1"):
        with subtests.test(query):
            root = GivenRoot(f"memory://chain/{query}")

            def run(value: int, query: str, number: int = 0, root: GivenRoot = root) -> None:
                given: Given = [("in", Record(b"k", value.to_bytes(8, "big"), 1))]
                ChainRun(countdown(), root, local=tmp_path).run(number, given, query)

            failpoints.arm("operator.committed", die, at=3)
            try:
                with pytest.raises(DriverDiedError):
                    run(4, QUERY)
            finally:
                failpoints.disarm()
            run(4 if query == QUERY else 0, query)
            assert state_of(root, "counts") == {"k": 5 if query == QUERY else 3 + 1}
            with pytest.raises(StoreMismatchError, match="older copy"):
                run(0, query, number=2)
            with pytest.raises(TopologyMismatchError):
                ChainRun(three_parts(), root, local=tmp_path)
