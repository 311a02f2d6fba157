"""What ``statestores.json`` says: the stores of a state root (LAY-11)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from statestores.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    StoreCorruptedError,
    StoreMismatchError,
    UnsupportedFormatError,
)
from statestores.files.directory_lock import LOCK_FILE
from statestores.files.durable_json import ROOT_FILE
from statestores.files.strict_json import Fields
from statestores.generations import GENERATION
from statestores.semantics.every_kind.self_description import check_description
from statestores.serdes import specification_from_description
from statestores.spi.specification import StoreSpecification

MAX_PARTITIONS = 100_000
"""More partitions than this is a mistake: each is a directory and a file lock."""

RESERVED_NAMES = frozenset({ROOT_FILE, LOCK_FILE})
"""Files of the state root itself: a store of that name would have to be a directory there."""

TASKS_DIRECTORY: Final = "@tasks"
"""Where tasks keep what is theirs, in a state root. No store can have such a name."""

OPERATORS_DIRECTORY: Final = "@stateful"
"""Where operators of Spark's queries keep what is theirs, in a state root."""

IMPORT_DIRECTORY: Final = ".import"
"""Where imports write partitions until they are complete, and note which have come, in a root."""

TOPOLOGY_NOTE: Final = Path(TASKS_DIRECTORY, "topology.json")
"""Where a topology notes what it is, in the state root that it runs on."""

FORMAT = 1
"""The version of the file that is written. A release that does not know `Placement` passes over it,
and forgets it when it writes the file; the next run of a topology notes it again."""

FORMAT_WITH_GENERATIONS: Final = 2
"""The version of a file that names a store which has been resharded. A release that does not know
generations would look for its partitions where they are no longer, and so refuses the file."""

FORMAT_WITH_LOG_GENERATIONS: Final = 3
"""The version of a file in an object store that names a store which has been resharded there, or of
which a reshard has begun. A release that does not know it would read and write the log that has
ended, or may end at any moment, and so refuses the file."""

LOG_GENERATION: Final = "log_generation"
"""The field of a store's entry that says under which id its log was begun by a reshard."""

MAY_HAVE_ENDED: Final = "may_have_ended"
"""The field of a store's entry that says that its log is to be looked at: it may have an end."""


CHECKSUM: Final = "crc32"
"""The field that says what everything else in the file sums up to. A release that does not know it
passes over it, and leaves it out when it writes the file; a file without it is taken as it is."""


class Placement(StrEnum):
    """Who decides the partition of a key."""

    PARTITIONER = "partitioner"
    """The store's partitioner: each key is where reads of one key look for it."""

    TASK = "task"
    """The task that writes it: its keys are its own, such as those of a queue of the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEntry:
    """One store of a state root."""

    specification: StoreSpecification[Any, Any]
    """What the store is."""

    partitions: int
    """How many partitions it has, from 1."""

    placement: Placement | None = None
    """Who decides the partition of a key; ``None`` when its writers have not said."""

    generation: int = 0
    """How often the store has been resharded, which says where its partitions lie."""

    log_generation: str = ""
    """In an object store, the id under which the last reshard has begun its log."""

    may_have_ended: bool = False
    """In an object store, whether a reshard was about to end its log, and may have."""

    def only_partition(self) -> int:
        """Return the number of the one partition that the store has, 0.

        Raises:
            InvalidArgumentError: It has several, and a caller has to say which one it means.
        """
        if self.partitions != 1:
            raise InvalidArgumentError(
                f"the store {self.specification.name!r} has the partitions 0 to "
                f"{self.partitions - 1}, and none is named; name one, or read all of them with "
                "statestores.query"
            )
        return 0


def stores_in(fields: Fields, shown: str, only: str | None = None) -> dict[str, StoreEntry]:
    """Return the stores that *fields* name, those of ``statestores.json`` at *shown*.

    Where *only* one of them is asked for, nobody looks at what is said of the others.

    Raises:
        StoreCorruptedError: It is malformed, or has another checksum than it says.
        UnsupportedFormatError: It is of a later release.
    """
    version = fields.integer("format")
    if version not in (FORMAT, FORMAT_WITH_GENERATIONS, FORMAT_WITH_LOG_GENERATIONS):
        raise UnsupportedFormatError(
            f"{shown} has format {version}, and this release knows {FORMAT} to "
            f"{FORMAT_WITH_LOG_GENERATIONS}; upgrade statestores"
        )
    stores = {
        name: _read_entry(shown, name, entry)
        for name, entry in fields.inside("stores").items()
        if only is None or name == only
    }
    check_checksum(fields, shown)
    return stores


def check_checksum(fields: Fields, shown: str) -> None:
    """Accept *fields*, those of the document *shown*, if they sum up to what they say (LAY-11).

    Those that say nothing are of an earlier release.

    Raises:
        StoreCorruptedError: They do not.
    """
    if CHECKSUM in fields and fields.text(CHECKSUM) != checksum_of(fields.as_is()):
        raise StoreCorruptedError(
            f"{shown} does not have the checksum that it says: it is damaged or was edited; put it "
            f"back from a copy, or remove the field {CHECKSUM!r} if everything else in it is right"
        )


def checksum_of(content: Mapping[str, Any]) -> str:
    """Return the CRC32 of *content* without its checksum, as eight hexadecimal digits (LAY-11).

    It is that of the JSON in ASCII, with sorted names and no space.
    """
    rest = {name: value for name, value in content.items() if name != CHECKSUM}
    compact = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return f"{crc32(compact.encode('ascii')):08x}"


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return *content* and its checksum (LAY-11)."""
    return {**content, CHECKSUM: checksum_of(content)}


def _read_entry(shown: str, name: str, entry: Fields) -> StoreEntry:
    """Return what the file says about the store *name*, which names a directory."""
    partitions = entry.integer("partitions", 1, MAX_PARTITIONS)
    placement = _read_placement(entry)
    generation = entry.integer(GENERATION) if GENERATION in entry else 0
    try:
        specification = specification_from_description(entry.mapping("specification"))
    except (InvalidArgumentError, InvalidTypeError) as error:
        raise StoreCorruptedError(
            f"{shown} describes the store {name!r} wrongly, or is of a later release: {error}"
        ) from error
    if specification.name != name or name in RESERVED_NAMES:
        raise StoreCorruptedError(
            f"{shown} has the store {specification.name!r} under the name {name!r}, which is "
            "not its own or one that no store can have; it is damaged or was edited"
        )
    return StoreEntry(
        specification=specification,
        partitions=partitions,
        placement=placement,
        generation=generation,
        log_generation=entry.text(LOG_GENERATION) if LOG_GENERATION in entry else "",
        may_have_ended=entry.flag(MAY_HAVE_ENDED) if MAY_HAVE_ENDED in entry else False,
    )


def _read_placement(entry: Fields) -> Placement | None:
    if "placement" not in entry:
        return None
    try:
        return Placement(entry.text("placement"))
    except ValueError:
        entry.refuse("placement", f"one of {', '.join(Placement)}")


def content_of(stores: Mapping[str, StoreEntry]) -> dict[str, Any]:
    """Return what ``statestores.json`` says about *stores*."""
    format_ = FORMAT
    if any(entry.generation for entry in stores.values()):
        format_ = FORMAT_WITH_GENERATIONS
    if any(entry.log_generation or entry.may_have_ended for entry in stores.values()):
        format_ = FORMAT_WITH_LOG_GENERATIONS
    content = {
        "format": format_,
        "stores": {
            name: {
                "specification": entry.specification.describe(),
                "partitions": entry.partitions,
                **({} if entry.placement is None else {"placement": entry.placement.value}),
                **({GENERATION: entry.generation} if entry.generation else {}),
                **({LOG_GENERATION: entry.log_generation} if entry.log_generation else {}),
                **({MAY_HAVE_ENDED: True} if entry.may_have_ended else {}),
            }
            for name, entry in stores.items()
        },
    }
    return with_checksum(content)


def with_entry(stores: Mapping[str, StoreEntry], entry: StoreEntry) -> dict[str, StoreEntry] | None:
    """Return *stores* with *entry*; ``None`` where it is noted already as it is.

    An entry that does not say who places its keys leaves what is noted of that.

    Raises:
        StoreMismatchError: Another store is noted under its name.
    """
    present = stores.get(entry.specification.name)
    if present is not None:
        _check_entry(present, entry)
        entry = replace(
            entry,
            generation=present.generation,
            log_generation=present.log_generation,
            may_have_ended=present.may_have_ended,
        )
        if entry.placement is None:
            entry = replace(entry, placement=present.placement)
        if (present.specification, present.placement) == (entry.specification, entry.placement):
            return None
    return {**stores, entry.specification.name: entry}


def _check_entry(present: StoreEntry, wanted: StoreEntry) -> None:
    """Accept an entry that says the same as the one that is there."""
    specification = wanted.specification
    check_description(present.specification.describe(), specification, specification.changeable)
    if present.partitions != wanted.partitions:
        raise StoreMismatchError(
            f"the store {wanted.specification.name!r} has {present.partitions} partitions, "
            f"expected {wanted.partitions}; `statestores reshard` gives a store another number"
        )
