"""Rules of reshards of operators' stores left out, one at a time."""

from typing import Any

from planted_bugs import PlantedBug

from statestores.object_log import writes
from statestores.object_log.requests import Steps
from statestores.staging import operator_fence, operator_steps


def _nothing(*_: object) -> Steps[None]:
    yield from ()


def _whatever_counts_by_now(*given: Any, accept_batches: object = None, **named: Any) -> Steps[Any]:
    return (yield from writes.commit_staged(*given, **named))


BUGS = {
    "no-fence": PlantedBug(
        "a reshard does not tell the operator of a store that is not its anchor",
        ((operator_fence, "keep_out", _nothing),),
    ),
    "fence-behind-anything": PlantedBug(
        "a fence is put behind a record that counted since the content was taken",
        ((operator_fence, "commit_staged", _whatever_counts_by_now),),
    ),
    "fence-not-passed-on": PlantedBug(
        "a driver that begins behind a fence does not tell the other stores",
        ((operator_fence, "pass_on", _nothing),),
        first=80,
    ),
    "fence-not-looked-at": PlantedBug(
        "a driver commits a micro-batch that it has begun before a fence",
        ((operator_steps, "check_fence", lambda *_: None),),
    ),
    "record-lacking": PlantedBug(
        "a store is resharded that lacks a record which counts",
        ((operator_fence, "check_settled", _nothing),),
        first=60,
    ),
    "no-membership": PlantedBug(
        "a store does not say that it is an operator's before it has a record",
        ((operator_steps, "join", _nothing),),
    ),
}
