"""Rules of reshards in object stores left out, one at a time."""

from typing import Any

from planted_bugs import PlantedBug

from statestores.object_log import catching_up, owners, writes
from statestores.object_log.checkpoint import Checkpoint
from statestores.object_log.folding import with_writes
from statestores.object_log.generations import ending, retiring
from statestores.object_log.requests import Steps


def _passes_over(names: Any, wanted: Any, view: Any = None, **others: Any) -> Steps[Any]:
    view = yield from catching_up.catch_up(names, wanted, view, **{**others, "ended": True})
    if view.ended is not None:
        view.ended, view.next = None, view.next + 1
    return view


def _whatever(*_: object) -> None:
    return None


def _not_of_its_own(checkpoint: Checkpoint, void_before: int, generation: str) -> bool:
    return generation not in {checkpoint.generation, *checkpoint.former}


def _behind_the_end(old: Any, view: Any, unique: str, parts: Any) -> Checkpoint:
    view.next += 1
    return with_writes(old, view, unique, parts)


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
    "batches-forgotten": PlantedBug(
        "the next log does not know which batches the store has",
        ((ending, "Checkpoint", _without(batches={})),),
    ),
    "staged-elsewhere": PlantedBug(
        "the next log commits what was staged for the one before",
        ((ending, "Checkpoint", _without(void_before=0)),),
    ),
}
