"""What an operator of a query keeps beside its stores is verified, without Spark."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import invoke
from object_operator import ObjectOperator, dying
from stateful_plans import plan_of, run_batch

from statestores import failpoints
from statestores.errors import StateStoreError, UnsupportedFormatError
from statestores.root_document import with_checksum
from statestores.spark.given_root import GivenRoot
from statestores.spark.stateful_functions.batches import MicroBatches
from statestores.spark.stateful_functions.plan import StatefulPlan
from statestores.staging.write_intent import write_directory
from statestores.state_root import StateRoot
from statestores.storage import Found
from statestores.verification import Finding, Status, verify

pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")

WORDS = ["a", "b", "c", "d"]


class _DriverDiesError(Exception):
    """Nobody catches it on the way."""


def _die() -> None:
    raise _DriverDiesError


@pytest.fixture
def plan(tmp_path: Path) -> StatefulPlan:
    """A word count that has had one micro-batch."""
    plan = plan_of(tmp_path / "state")
    run_batch(plan, 0, WORDS)
    return plan


def _records(place: Path | str) -> list[Finding]:
    return [each for each in verify(place) if each.check == "micro-batch"]


def _symptoms(place: Path | str) -> dict[str, dict[str, Any]]:
    found = json.loads(invoke("doctor", str(place), "--json").stdout)["symptoms"]
    return {each["code"]: each for each in found}


def _dies(plan: StatefulPlan, step: str) -> None:
    failpoints.arm(step, _die)
    try:
        with pytest.raises(_DriverDiesError):
            run_batch(plan, 1, WORDS)
    finally:
        failpoints.disarm()


@pytest.mark.spec("TSK-23")
def test_a_micro_batch_that_is_carried_out_is_whole(plan: StatefulPlan) -> None:
    """Nothing waits, also when what it has emitted is gone, as after a sink has it."""
    [before] = _records(plan.root)
    MicroBatches(plan).forget_outputs()
    [after] = _records(plan.root)

    assert (before.status, before.is_unfinished) == (Status.OK, False)
    assert after == before
    assert _symptoms(plan.root).keys().isdisjoint({"operator-damaged", "recorded-commit"})


@pytest.mark.spec("TSK-23")
def test_a_micro_batch_that_waits_is_said_to(plan: StatefulPlan) -> None:
    """A driver has died between its record and its stores; the next start carries it out."""
    _dies(plan, "publish.checked")
    [finding] = _records(plan.root)
    symptom = _symptoms(plan.root)["recorded-commit"]
    MicroBatches(plan).settle()
    [after] = _records(plan.root)

    assert (finding.status, finding.is_unfinished) == (Status.OK, True)
    assert "'counts' not yet" in finding.detail
    assert symptom["severity"] == "note"
    assert symptom["detail"] == finding.detail
    assert not after.is_unfinished


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _torn(plan: StatefulPlan) -> None:
    file = plan.directory / "batch.json"
    file.write_bytes(file.read_bytes()[:-9])


def _moved(plan: StatefulPlan) -> None:
    file = plan.directory / "batch.json"
    content = json.loads(file.read_bytes())
    file.write_text(json.dumps(with_checksum({**content, "operator": "other"})))


def _emitted(plan: StatefulPlan) -> None:
    _flip(min(plan.directory.glob("*/*.arrow")))


def _older_changelog(plan: StatefulPlan) -> None:
    for segment in plan.root.glob("*/*/changelog/*.log"):
        segment.unlink()


@pytest.mark.spec("TSK-23")
@pytest.mark.parametrize("damage", [_torn, _moved, _emitted, _older_changelog])
def test_a_micro_batch_from_which_a_query_cannot_go_on_is_found(
    plan: StatefulPlan, damage: Callable[[StatefulPlan], object]
) -> None:
    """`batch.json` was cut, and `verify` and `doctor` said that nothing was wrong.

    They looked at stores alone, and the query did not start: nobody was told before.
    """
    damage(plan)
    [finding] = _records(plan.root)
    symptom = _symptoms(plan.root)["operator-damaged"]

    assert finding.status is Status.DAMAGED
    assert isinstance(finding.error, StateStoreError)
    assert symptom["detail"] == finding.detail
    assert invoke("verify", str(plan.root)).exit_code == 1


@pytest.mark.spec("TSK-23")
def test_what_is_staged_for_a_micro_batch_that_waits_is_looked_at(plan: StatefulPlan) -> None:
    """The next start could not append it."""
    _dies(plan, "publish.checked")
    home = StateRoot.open(plan.root).home("counts")
    write = json.loads((plan.directory / "batch.json").read_bytes())["write_id"]
    _flip(min(write_directory(home, write).iterdir()))
    [finding] = _records(plan.root)

    assert finding.status is Status.DAMAGED
    with pytest.raises(StateStoreError, match="staged file"):
        MicroBatches(plan).settle()


@pytest.mark.spec("TSK-23")
def test_a_record_of_a_later_release_is_said_to_be_one(plan: StatefulPlan) -> None:
    """It is no damage."""
    file = plan.directory / "batch.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), "format": 2}))
    [finding] = _records(plan.root)

    assert isinstance(finding.error, UnsupportedFormatError)
    assert "operator-damaged" not in _symptoms(plan.root)


@pytest.mark.spec("TSK-23")
def test_the_record_of_an_operator_on_objects_is_looked_at(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It waits, is whole, is damaged, and is gone."""
    operator = ObjectOperator(GivenRoot(f"memory://stateful/{request.node.name}"), tmp_path / "l")
    storage = operator.root.objects
    with dying("operator.committed"):
        operator.run(0)
    [waiting] = _records(storage.url)
    operator.run(0)
    [whole] = _records(storage.url)
    [name] = operator.objects("@stateful/words/records/")
    found = storage.read(name)
    assert isinstance(found, Found)
    data = bytearray(found.data)
    data[-9] ^= 1
    storage.delete(name)
    [gone] = _records(storage.url)
    storage.create(name, bytes(data))
    [damaged] = _records(storage.url)

    assert (waiting.status, waiting.is_unfinished) == (Status.OK, True)
    assert (whole.status, whole.is_unfinished) == (Status.OK, False)
    assert (gone.status, damaged.status) == (Status.DAMAGED, Status.DAMAGED)
    assert _symptoms(storage.url)["operator-damaged"]["detail"] == damaged.detail
