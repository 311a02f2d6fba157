"""The object that records a commit of several stores (TSK-18).

It has the form of a record in a directory (`record_file`), with these contents::

    {"format": 1,
     "first": {"store": "counts", "base_offset": 7},
     "stores": {"rates": {"log": "5f3a...", "base_offset": 3, "bytes": 480}}}

and of each of `stores` a part, the changes of that store as a segment with one frame. The first
store's are in the entry that the record is named by, and nowhere else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from statestores.changelog.encoded_rows import EncodedChanges
from statestores.files.durable_json import check_format
from statestores.files.strict_json import Fields
from statestores.logged_store import LoggedStore
from statestores.spi.offsets import Position
from statestores.state_root import StateRoot
from statestores.tasks.commits.commit_record import RecordedPart, packed_part, read_part
from statestores.tasks.commits.record_file import (
    RecordParts,
    damaged_record,
    pack_record,
    unpack_record,
)

_FORMAT = 1


class Pending(NamedTuple):
    """What a store is to commit."""

    store: LoggedStore[Any]
    """The store."""

    log: str
    """The id of its log."""

    changes: EncodedChanges
    """Its pending changes, encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedObject:
    """What such an object says."""

    first_offset: int
    """Where the changelog of the first store goes on with this commit."""

    logs: Mapping[str, str]
    """The ids of the other stores' logs."""

    parts: Mapping[str, RecordedPart]
    """What is appended to them."""


def pack_commit(first: Pending, others: Sequence[Pending], position: Position) -> bytes:
    """Return the record of the changes of *others*, of a commit that *first* has first."""
    stores: dict[str, Any] = {}
    parts: list[bytes] = []
    for store, log, changes in others:
        base = store.changelog.end_offset
        part = packed_part(store, base, changes, position)
        stores[store.name] = {"log": log, "base_offset": base, "bytes": len(part)}
        parts.append(part)
    begins = {"store": first.store.name, "base_offset": first.store.changelog.end_offset}
    return pack_record({"format": _FORMAT, "first": begins, "stores": stores}, parts)


def unpack_commit(data: bytes, shown: str, store: str, root: StateRoot) -> RecordedObject:
    """Return what *data*, the record at *shown* of a commit that *store* has first, says.

    Raises:
        StoreCorruptedError: It is not what was put.
        StoreNotFoundError: *root* has no store that it names.
        UnsupportedFormatError: It is of a later release.
    """
    record = unpack_record(data, shown)
    fields = Fields(record.content, repr(shown))
    check_format(fields, shown, _FORMAT)
    first, slices = fields.inside("first"), RecordParts(shown, record)
    logs: dict[str, str] = {}
    parts: dict[str, RecordedPart] = {}
    for name, part in fields.inside("stores").items():
        logs[name] = part.text("log")
        base = part.integer("base_offset")
        parts[name] = read_part(shown, name, base, slices.next(part), root)
    slices.end()
    if first.text("store") != store or not parts:
        raise damaged_record(shown, "it is not of the entry that it is named by")
    return RecordedObject(first_offset=first.integer("base_offset"), logs=logs, parts=parts)
