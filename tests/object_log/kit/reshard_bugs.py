"""Rules of reshards in object stores left out, one at a time."""

from dataclasses import replace
from typing import Any

from planted_bugs import PlantedBug

from statestores.object_log import catching_up, owners, writes
from statestores.object_log.checkpoint import Checkpoint, PartState
from statestores.object_log.folding import with_writes, without_content
from statestores.object_log.generations import ending, retiring
from statestores.object_log.names import Names
from statestores.object_log.requests import ListNames, Steps
from statestores.object_log.view import PartView


def _passes_over(names: Any, wanted: Any, view: Any = None, **others: Any) -> Steps[Any]:
    view = yield from catching_up.catch_up(names, wanted, view, **{**others, "ended": True})
    if view.ended is not None:
        view.ended, view.next = None, view.next + 1
    return view


def _whatever(*_: object) -> None:
    return None


def _not_of_its_own(checkpoint: Checkpoint, void_before: int, generation: str) -> bool:
    return generation not in {checkpoint.generation, *checkpoint.former}


def _scratch_of_all(checkpoint: Checkpoint, names: Names, name: str) -> bool:
    return "/scratch/" in name


def _behind_the_end(old: Any, view: Any, unique: str, parts: Any) -> Checkpoint:
    view.next += 1
    return with_writes(old, view, unique, parts)


def _seals_too(names: Names, checkpoint: Checkpoint) -> Steps[list[str]]:
    roots = [name for name in (yield ListNames(names.roots)) if name < names.root(checkpoint.next)]
    owned: list[str] = yield ListNames(names.owned)
    return roots + owned


def _grants_of_nobody(part: PartView) -> PartState:
    return replace(without_content(part), closed=(), closed_from=0)


def _ends_alone(view: Any) -> Any:
    return {number: part.end for number, part in view.parts.items()}, view.batches


def _without(**wrong: Any) -> Any:
    def make(**fields: Any) -> Checkpoint:
        return Checkpoint(**{**fields, **wrong})

    return make


BUGS = {
    "end-passed-over": PlantedBug(
        "who writes goes on behind the end of the log",
        ((writes, "catch_up", _passes_over), (owners, "catch_up", _passes_over)),
    ),
    "content-before-the-fence": PlantedBug(
        "the end is put behind what was written after the content was taken",
        ((ending, "content_of", _whatever),),
    ),
    "owner-goes-on": PlantedBug(
        "the log ends while partitions have owners", ((ending, "check_unowned", _whatever),)
    ),
    "void-not-looked-at": PlantedBug(
        "a reshard that a vacuum has taken for dead counts all the same",
        ((ending, "begun_at", lambda _: 10**9),),
    ),
    "vacuum-too-early": PlantedBug(
        "a vacuum removes what a reshard has put that may count yet",
        ((retiring, "never_counts", _not_of_its_own),),
    ),
    "end-below-the-floor": PlantedBug(
        "the checkpoint of a log that has ended passes its end",
        ((retiring, "with_writes", _behind_the_end),),
    ),
    "seals-removed": PlantedBug(
        "the seals of a log that has ended are removed with it, and who has slept appends",
        ((retiring, "passed_entries", _seals_too),),
        first=60,
    ),
    "grants-forgotten": PlantedBug(
        "the checkpoint of a log that has ended does not know what its owners had appended",
        ((retiring, "without_content", _grants_of_nobody),),
        first=180,
    ),
    "grants-not-looked-at": PlantedBug(
        "the end is put behind somebody who took a partition after the content was taken",
        ((ending, "content_of", _ends_alone),),
        first=410,
    ),
    "batches-forgotten": PlantedBug(
        "the next log does not know which batches the store has",
        ((ending, "Checkpoint", _without(batches={})),),
    ),
    "staged-elsewhere": PlantedBug(
        "the next log commits what was staged for the one before",
        ((ending, "Checkpoint", _without(void_before=0)),),
    ),
}

BUG_OF_TASKS = PlantedBug(
    "a vacuum removes the rows that a reshard moves which may count yet",
    ((retiring, "is_moved", _scratch_of_all),),
    first=80,
)
