"""The checkpoint: what everything before a floor amounts to. The only object that is replaced.

Its *floor* is `Checkpoint.next` for the root log, and `Checkpoint.floor` for what the owners of a
partition append. Names below it are nothing, whatever is found under them (OBJ-6).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from statestores.errors import ChangelogCorruptedError, StoreCorruptedError, UnsupportedFormatError
from statestores.files.strict_json import Fields
from statestores.object_log.documents import (
    pack_document,
    pack_rows,
    position_in,
    unpack_document,
)
from statestores.spi.offsets import Position

KEPT_GRANTS = 64
"""Closed grants of a partition whose length is remembered. An owner that does not know whether its
last append is there, and that was fenced this often meanwhile, is not told any more."""

KEPT_WRITES = 256
"""Writes whose ids are remembered, likewise."""


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """A segment: the head and frames of the changelog format, in one object."""

    name: str
    """The object."""

    base: int
    """Its first offset."""

    end: int
    """The offset after its last."""

    size: int
    """Its length in bytes."""

    compacted: bool
    """Whether changes that later ones make void were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartState:
    """One partition below the floor."""

    end: int = 0
    """The offset after the last one."""

    position: Position = field(default_factory=Position)
    """The input that it reflects."""

    grant: int | None = None
    """The grant of the owner; ``None`` without one."""

    owner: str | None = None
    """The id of the entry that gave it."""

    number: int = 0
    """How many of the owner's entries are in the segments."""

    segments: tuple[SegmentRef, ...] = ()
    """What the partition holds, in order."""

    closed: tuple[tuple[int, int], ...] = ()
    """Earlier grants, and how many entries each has, in order."""

    closed_from: int = 0
    """Of grants before this one nothing is known any more."""

    begin: int = 0
    """The first offset: a log that a reshard has made begins above all that were there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What everything below the floor amounts to."""

    id: str
    """Unique, so that no two checkpoints have one tag: a tag may be a hash of the content."""

    log: str
    """The id of the log, given once. An engine on a local disk remembers it."""

    store_kind: str
    """The kind of store whose changes these are."""

    next: int = 0
    """The floor of the root log: the first entry that is not folded in here."""

    void_before: int = 0
    """Staged changes of writes that began before that entry never count."""

    writes: tuple[tuple[int, str, tuple[tuple[int, int], ...]], ...] = ()
    """The last writes: the number of the entry, the id, and the first offset by partition."""

    writes_from: int = 0
    """Of writes before this entry nothing is known any more."""

    parts: Mapping[int, PartState] = field(default_factory=dict)
    """The partitions that have had an entry."""

    batches: Mapping[str, int] = field(default_factory=dict)
    """The last batch of each stream that is applied."""

    generation: str = ""
    """The id of the reshard that has made this log; empty for the first one of the store."""

    begun: int = 0
    """The number of the first entry of the root log, which goes on with the one that has ended."""

    former: tuple[str, ...] = ()
    """The generations before this one, which have ended."""

    def part(self, partition: int) -> PartState:
        """Return what is known of *partition*."""
        return self.parts.get(partition) or PartState()

    def floor(self, partition: int) -> tuple[int, int]:
        """Return the first grant and number whose name counts, among owners of *partition*."""
        part = self.part(partition)
        return (self.next, 0) if part.grant is None else (part.grant, part.number)

    def has_counted(self, partition: int, grant: int, number: int) -> bool | None:
        """Return whether entry *number* of *grant*, below the floor, is in the segments (OBJ-5).

        ``None`` when too much has happened since to say.
        """
        part = self.part(partition)
        if part.grant == grant:
            return number < part.number
        for known, count in part.closed:
            if known == grant:
                return number < count
        return None if grant < part.closed_from else False

    def pack(self) -> bytes:
        """Return the stored form."""
        batches = {"batches": dict(self.batches)} if self.batches else {}
        resharded = {
            "generation": self.generation,
            "begun": self.begun,
            "former": list(self.former),
        }
        return pack_document(
            "checkpoint",
            {
                **batches,
                **(resharded if self.generation else {}),
                "id": self.id,
                "log": self.log,
                "store_kind": self.store_kind,
                "next": self.next,
                "void_before": self.void_before,
                "writes": [
                    {"entry": k, "id": name, "bases": {str(p): base for p, base in bases}}
                    for k, name, bases in self.writes
                ],
                "writes_from": self.writes_from,
                "parts": {str(number): _pack_part(part) for number, part in self.parts.items()},
            },
        )

    @classmethod
    def unpack(cls, data: bytes, shown: str) -> Self:
        """Return the checkpoint of which *data* is the stored form.

        Raises:
            ChangelogCorruptedError: It is damaged.
            UnsupportedFormatError: It is of a later release.
        """
        kind, fields = unpack_document(data, shown)
        if kind != "checkpoint":
            raise UnsupportedFormatError(
                f"the object {shown} is a {kind!r}, expected a checkpoint; upgrade statestores"
            )
        try:
            batches = fields.inside("batches") if "batches" in fields else None
            is_later = "generation" in fields
            return cls(
                id=fields.text("id"),
                log=fields.text("log"),
                store_kind=fields.text("store_kind"),
                next=fields.integer("next"),
                void_before=fields.integer("void_before"),
                writes=tuple(
                    (each.integer("entry"), each.text("id"), _bases(each.inside("bases")))
                    for each in fields.objects("writes")
                ),
                writes_from=fields.integer("writes_from"),
                parts={
                    number: _unpack_part(fields.inside("parts").inside(name))
                    for number, name in fields.inside("parts").numbered()
                },
                batches={}
                if batches is None
                else {stream: batches.integer(stream) for stream in batches},
                generation=fields.text("generation") if is_later else "",
                begun=fields.integer("begun") if is_later else 0,
                former=tuple(fields.row("former")) if is_later else (),
            )
        except StoreCorruptedError as error:
            raise ChangelogCorruptedError(str(error)) from error


def _bases(fields: Fields) -> tuple[tuple[int, int], ...]:
    return tuple((number, fields.integer(name)) for number, name in fields.numbered())


def _pack_part(part: PartState) -> dict[str, Any]:
    return {
        **({"begin": part.begin} if part.begin else {}),
        "end": part.end,
        "position": pack_rows(part.position),
        "grant": part.grant,
        "owner": part.owner,
        "number": part.number,
        "segments": [
            {
                "name": each.name,
                "base": each.base,
                "end": each.end,
                "size": each.size,
                "compacted": each.compacted,
            }
            for each in part.segments
        ],
        "closed": [list(each) for each in part.closed],
        "closed_from": part.closed_from,
    }


def _unpack_part(fields: Fields) -> PartState:
    segments = tuple(
        SegmentRef(
            each.text("name"),
            each.integer("base"),
            each.integer("end"),
            each.integer("size"),
            each.flag("compacted"),
        )
        for each in fields.objects("segments")
    )
    base = begin = fields.integer("begin") if "begin" in fields else 0
    for each in segments:
        if each.base != base or each.end <= base:
            fields.refuse("segments", f"segments that follow each other, the first at {base}")
        base = each.end
    if base != fields.integer("end"):
        fields.refuse("end", f"the end of the segments, {base}")
    return PartState(
        end=base,
        position=position_in(fields),
        grant=fields.integer_or_none("grant"),
        owner=fields.text_or_none("owner"),
        number=fields.integer("number"),
        segments=segments,
        closed=_closed_grants(fields),
        closed_from=fields.integer("closed_from"),
        begin=begin,
    )


def _closed_grants(fields: Fields) -> tuple[tuple[int, int], ...]:
    grants = []
    for row in fields.rows("closed"):
        match row:
            case [int(grant), int(count)] if grant >= 0 <= count:
                grants.append((grant, count))
            case _:
                fields.refuse("closed", "a list of grants and numbers of entries")
    return tuple(grants)
