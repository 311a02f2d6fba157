"""The small objects of a log: entries of its root log, and seals (OBJ-3).

Each is eight hexadecimal digits, the CRC32C of what follows, a line feed, and a JSON object with
the ``format`` and the ``kind`` of the document.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import google_crc32c

from statestores.errors import ChangelogCorruptedError, StoreCorruptedError, UnsupportedFormatError
from statestores.files.strict_json import Fields, parse_object
from statestores.spi.offsets import Position, TopicPartition

FORMAT = 1
"""The version of documents that is written. An older reader refuses a newer one by name."""

_HEAD_BYTES = 9


def pack_document(kind: str, content: Mapping[str, Any]) -> bytes:
    """Return the stored form of the document *content* of *kind*."""
    fields = {"format": FORMAT, "kind": kind, **content}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    checksum: int = google_crc32c.value(text)
    return b"%08x\n" % checksum + text


def unpack_document(data: bytes, shown: str) -> tuple[str, Fields]:
    """Return kind and fields of the document *data*; *shown* names it in messages.

    Raises:
        ChangelogCorruptedError: It is damaged.
        UnsupportedFormatError: It is of a later release.
    """
    text = data[_HEAD_BYTES:]
    checksum: int = google_crc32c.value(text)
    if data[:_HEAD_BYTES] != b"%08x\n" % checksum:
        raise ChangelogCorruptedError(
            f"the object {shown} is damaged: its checksum does not match; put back an earlier "
            "version of it, if the bucket keeps them"
        )
    try:
        fields = Fields(parse_object(text, shown), shown)
        version, kind = fields.integer("format"), fields.text("kind")
    except StoreCorruptedError as error:
        raise ChangelogCorruptedError(str(error)) from error
    if version != FORMAT:
        raise UnsupportedFormatError(
            f"the object {shown} has format {version}, and this release knows {FORMAT}; upgrade "
            "statestores"
        )
    return kind, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What a grant amounts to once its log is sealed."""

    grant: int
    """The number of the grant."""

    count: int
    """How many entries its owner has appended: the number of the seal."""

    end: int
    """The offset after the last of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """A partition gets an owner, whose grant is the number of this entry; or loses the one it has.

    The seal of the last owner's log is there already.
    """

    id: str
    """Whose entry it is."""

    partition: int
    """The partition."""

    hold: bool
    """Whether there is an owner from now on."""

    closed: Closed | None
    """The grant that ends with this; ``None`` when there was none."""

    def pack(self) -> bytes:
        """Return the stored form."""
        closed = self.closed
        return pack_document(
            "take",
            {
                "id": self.id,
                "partition": self.partition,
                "hold": self.hold,
                "closed": None
                if closed is None
                else {"grant": closed.grant, "count": closed.count, "end": closed.end},
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """One staged object, as it was put: whoever finds it named need not read it to go on."""

    id: str
    """The id under which it is staged."""

    span: int
    """How many offsets it takes, from 1."""

    clears: bool
    """Whether it is a clear, which drops everything before it."""

    size: int
    """Its length in bytes."""

    checksum: int
    """That of its frame."""

    position: Position
    """The position that it advances to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one partition gets of a write."""

    base: int
    """The offset of its first change."""

    changes: int
    """How many offsets it takes, from 1."""

    staged: tuple[Staged, ...] = ()
    """The objects, in order; empty for the one that is staged under the id of the write."""


class Batch(NamedTuple):
    """A batch of a stream that writes to the store, which may come again after a crash."""

    stream: str
    """Which stream it is."""

    number: int
    """The number of the batch, from 0; later batches have higher ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Staged changes of several partitions count from now on: the commit point of all of them."""

    id: str
    """The id of the write, under which everything is staged whose share does not say otherwise."""

    parts: Mapping[int, Share]
    """What each partition gets."""

    batch: Batch | None = None
    """The batch that is applied with it; a batch without changes has no parts."""

    at_ms: int | None = None
    """When it was committed, by the writer's clock: that of all of its frames."""

    @property
    def staged_ids(self) -> set[str]:
        """The ids under which what it names is staged."""
        named = {each.id for share in self.parts.values() for each in share.staged}
        return named | {self.id}

    def pack(self) -> bytes:
        """Return the stored form."""
        content: dict[str, Any] = {
            "id": self.id,
            "parts": {str(p): _pack_share(share) for p, share in self.parts.items()},
        }
        if self.batch is not None:
            content["batch"] = {"stream": self.batch.stream, "number": self.batch.number}
        if self.at_ms is not None:
            content["at_ms"] = self.at_ms
        return pack_document("write", content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """What writes have staged that began before an entry will never count."""

    id: str
    """Whose entry it is."""

    before: int
    """The number of that entry."""

    def pack(self) -> bytes:
        """Return the stored form."""
        return pack_document("void", {"id": self.id, "before": self.before})


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The log ends here for good, and the store goes on in another one (OBJ-46).

    No entry comes after it, and nothing folds it. A release that does not know it refuses the log
    by name, at whatever it does with it.
    """

    generation: str
    """The id under which the log is made in which the store goes on; nobody else has it."""

    before: int
    """How many partitions the store has had."""

    partitions: int
    """How many partitions it has."""

    next: int
    """The number with which that log's root log begins: above the one of this entry."""

    def pack(self) -> bytes:
        """Return the stored form."""
        return pack_document(
            "end",
            {
                "generation": self.generation,
                "next": self.next,
                "before": self.before,
                "partitions": self.partitions,
            },
        )


RootEntry: TypeAlias = Take | Write | Void | End


def unpack_root_entry(data: bytes, shown: str) -> RootEntry:
    """Return the entry of a root log of which *data* is the stored form.

    Raises:
        ChangelogCorruptedError: It is damaged.
        UnsupportedFormatError: It is of a later release.
    """
    kind, fields = unpack_document(data, shown)
    try:
        match kind:
            case "take":
                return Take(
                    id=fields.text("id"),
                    partition=fields.integer("partition"),
                    hold=fields.flag("hold"),
                    closed=_closed(fields),
                )
            case "write":
                return _write(fields)
            case "void":
                return Void(id=fields.text("id"), before=fields.integer("before"))
            case "end":
                return End(
                    generation=fields.text("generation"),
                    before=fields.integer("before", 1),
                    partitions=fields.integer("partitions", 1),
                    next=fields.integer("next", 1),
                )
    except StoreCorruptedError as error:
        raise ChangelogCorruptedError(str(error)) from error
    raise UnsupportedFormatError(
        f"the entry {shown} is of the kind {kind!r}, and this release knows take, write, void "
        "and end; upgrade statestores"
    )


def _write(fields: Fields) -> Write:
    given = set(fields)
    batch = fields.inside("batch") if "batch" in given else None
    return Write(
        id=fields.text("id"),
        parts={number: _share(share) for number, share in _numbered(fields, "parts")},
        batch=None if batch is None else Batch(batch.text("stream"), batch.integer("number")),
        at_ms=fields.integer("at_ms") if "at_ms" in given else None,
    )


def _pack_share(share: Share) -> dict[str, Any]:
    content: dict[str, Any] = {"base": share.base, "changes": share.changes}
    if share.staged:
        content["staged"] = pack_staged(share.staged)
    return content


def _share(fields: Fields) -> Share:
    staged = staged_in(fields) if "staged" in set(fields) else ()
    changes = fields.integer("changes", 1)
    if staged and sum(each.span for each in staged) != changes:
        fields.refuse("changes", "the sum of what is staged")
    return Share(base=fields.integer("base"), changes=changes, staged=staged)


def pack_staged(staged: Iterable[Staged]) -> list[dict[str, Any]]:
    """Return *staged* as a document names it."""
    return [
        {
            "id": each.id,
            "span": each.span,
            "clears": each.clears,
            "size": each.size,
            "checksum": each.checksum,
            "position": pack_rows(each.position),
        }
        for each in staged
    ]


def staged_in(fields: Fields) -> tuple[Staged, ...]:
    """Return the objects that *fields* name as staged.

    Raises:
        StoreCorruptedError: They name none.
    """
    return tuple(
        Staged(
            id=each.text("id"),
            span=each.integer("span", 1),
            clears=each.flag("clears"),
            size=each.integer("size", 1),
            checksum=each.integer("checksum", last=0xFFFFFFFF),
            position=position_in(each),
        )
        for each in fields.objects("staged")
    )


def pack_rows(position: Position) -> list[list[Any]]:
    """Return *position* as rows of topic, partition and offset."""
    return [[p.topic, p.partition, position[p]] for p in sorted(position)]


def position_in(fields: Fields) -> Position:
    """Return the position that *fields* have.

    Raises:
        StoreCorruptedError: They have none.
    """
    offsets = {}
    for row in fields.rows("position"):
        match row:
            case [str(topic), int(partition), int(offset)] if partition >= 0 <= offset:
                offsets[TopicPartition(topic, partition)] = offset
            case _:
                fields.refuse("position", "a list of topic, partition and offset")
    return Position(offsets)


def _closed(fields: Fields) -> Closed | None:
    if fields.mapping_or_none("closed") is None:
        return None
    inside = fields.inside("closed")
    return Closed(
        grant=inside.integer("grant"), count=inside.integer("count"), end=inside.integer("end")
    )


def _numbered(fields: Fields, name: str) -> list[tuple[int, Fields]]:
    inside = fields.inside(name)
    return [(number, inside.inside(text)) for number, text in inside.numbered()]


def pack_seal(taker: str) -> bytes:
    """Return the seal that *taker* puts after the last entry of an owner."""
    return pack_document("seal", {"id": taker})


def is_seal(data: bytes) -> bool:
    """Return whether *data* is a seal, and not a frame, whose magic no document begins with."""
    return data[_HEAD_BYTES - 1 : _HEAD_BYTES + 1] == b"\n{" and b'"kind":"seal"' in data
