"""Rules of how operators commit left out, one at a time."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from planted_bugs import PlantedBug

from statestores.object_log import vacuum, writes
from statestores.object_log.catching_up import catch_up
from statestores.object_log.names import Names, begun_at, operator_of
from statestores.object_log.requests import Read, Steps
from statestores.object_log.settling import settle
from statestores.staging import operator_steps
from statestores.staging.operator_record import OperatorNames, OperatorRecord


def _voided_like_others(write: str, before: int) -> bool:
    return begun_at(write.rpartition("@")[2]) < before


def _all_that_is_staged(names: Names, staged: list[str]) -> Steps[list[str]]:
    view = yield from catch_up(names, ())
    ids = {name: names.staged_by(name) for name in staged}
    return [name for name, each in ids.items() if operator_of(each) and each not in view.counting]


def _whatever_was_last(*given: Any, accept_batches: object = None, **named: Any) -> Steps[Any]:
    return (yield from writes.commit_staged(*given, **named))


def _wherever_it_ends(*given: Any, accept: object = None, **named: Any) -> Steps[Any]:
    return (yield from writes.commit_staged(*given, **named))


def _without_batch(*given: Any, batch: object = None, **named: Any) -> Steps[Any]:
    return (yield from writes.commit_staged(*given, **named))


def _only_by_its_author(
    names: OperatorNames, record: OperatorRecord, logs: Mapping[str, Names], unique: str
) -> Steps[list[str]]:
    if not record.id.endswith(unique.removesuffix("c")):
        return []
    return (yield from _carry_out(names, record, logs, unique))


_carry_out = operator_steps.carry_out


def _over_what_is_there(names: OperatorNames, proposed: OperatorRecord) -> Steps[OperatorRecord]:
    number = 0 if proposed.after is None else proposed.after + 1
    record = replace(proposed, number=number)
    yield from settle(names.log, names.record(number), record.pack())
    return record


def _of_anybody(names: OperatorNames, name: str) -> tuple[str, int]:
    return name.removeprefix(names.outputs).partition("/")[0], 0


def _highest_record(
    names: OperatorNames, anchor: Names, partitions: Collection[int], known: Any = None
) -> Steps[operator_steps.Last]:
    last = yield from _find_last(names, anchor, partitions, known)
    number = 0 if last.record is None else last.record.number + 1
    found = yield Read(names.record(number))
    if found is None:
        return last
    return operator_steps.Last(last.view, OperatorRecord.unpack(found.data, "a record"), names)


_find_last = operator_steps.find_last


def _bug(story: str, *places: tuple[Any, str, Any]) -> PlantedBug:
    return PlantedBug(story, places)


BUGS = {
    "voided": _bug(
        "a void is for what operators have staged, too", (writes, "_is_voided", _voided_like_others)
    ),
    "not-come-to": _bug(
        "a vacuum deletes what the second store has not come to",
        (vacuum, "_behind_their_operator", _all_that_is_staged),
    ),
    "any-last": _bug(
        "a micro-batch is committed whichever record is the last",
        (operator_steps, "commit_staged", _whatever_was_last),
    ),
    "any-end": _bug(
        "a micro-batch is committed wherever its first store ends",
        (operator_steps, "commit_staged", _wherever_it_ends),
    ),
    "no-batch": _bug(
        "who carries a record out does not look whether somebody has",
        (operator_steps, "commit_staged", _without_batch),
    ),
    "only-author": _bug(
        "the next driver does not carry out what one that died has committed",
        (operator_steps, "carry_out", _only_by_its_author),
    ),
    "not-claimed": _bug(
        "a driver uses a number whose record is somebody else's",
        (operator_steps, "claim", _over_what_is_there),
    ),
    "record-counts": _bug(
        "a record counts as soon as it is there", (operator_steps, "find_last", _highest_record)
    ),
    "sweeps-all": _bug(
        "a driver that has slept removes what others have emitted since",
        (OperatorNames, "output_begun", _of_anybody),
    ),
}
