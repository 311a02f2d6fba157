"""A micro-batch of an operator on a state root in an object store: the record that names it all.

An operator changes several stores, each with a log of its own, and emits rows. Its records are
numbered, each put if nothing is there (OBJ-43)::

    @stateful/<operator>/anchor                in which store's log its records are committed
    @stateful/<operator>/records/<number>      a micro-batch: what is staged for each store
    @stateful/<operator>/outputs/<id>/<file>   what its function has emitted

A record says nothing by being there. It counts once the anchor's log has a batch of its number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from statestores.errors import ChangelogCorruptedError, StoreCorruptedError
from statestores.files.strict_json import Fields
from statestores.object_log.documents import (
    Batch,
    Staged,
    pack_document,
    pack_staged,
    staged_in,
    unpack_document,
)
from statestores.object_log.names import Names, begun_at, numbers_in, operator_stream
from statestores.root_document import OPERATORS_DIRECTORY

_DIGITS = 20
_ANCHOR = "operator"
_RECORD = "micro-batch"


@dataclass(frozen=True, slots=True)
class OperatorNames:
    """The names of one operator's objects."""

    operator: str
    """The operator."""

    url: str
    """The state root, for messages."""

    @property
    def log(self) -> Names:
        """What shows names in messages."""
        return Names(self.operator, self.url)

    @property
    def stream(self) -> str:
        """The stream by which stores know the records."""
        return operator_stream(self.operator)

    @property
    def membership(self) -> str:
        """The stream by which stores know that they are the operator's."""
        return f"{self.stream}/store"

    @property
    def fence(self) -> str:
        """The stream by which the log of the anchor, and those of the others, know of reshards."""
        return f"{self.stream}/fence"

    @property
    def _prefix(self) -> str:
        return f"{OPERATORS_DIRECTORY}/{self.operator}/"

    @property
    def anchor(self) -> str:
        """The object that says in which store's log records are committed."""
        return f"{self._prefix}anchor"

    @property
    def records(self) -> str:
        """What records begin with."""
        return f"{self._prefix}records/"

    @property
    def outputs(self) -> str:
        """What emitted rows begin with."""
        return f"{self._prefix}outputs/"

    def record(self, number: int) -> str:
        """Return the name of record *number*."""
        return f"{self.records}{number:0{_DIGITS}d}"

    def outputs_of(self, write: str) -> str:
        """Return what the rows begin with that were emitted under the id *write*."""
        return f"{self.outputs}{write}/"

    def record_number(self, name: str) -> int | None:
        """Return the number of the record *name*; ``None`` if it is none."""
        found = numbers_in(name, self.records)
        return found[0] if found is not None and len(found) == 1 else None

    def output_begun(self, name: str) -> tuple[str, int]:
        """Return the id under which *name* was emitted, and after how many records that was."""
        write = name.removeprefix(self.outputs).partition("/")[0]
        return write, begun_at(write.partition("@")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWrite:
    """What a micro-batch appends to one store."""

    ends: Mapping[int, int]
    """Where each partition ended when the micro-batch began."""

    staged: Mapping[int, tuple[Staged, ...]]
    """The objects, by partition."""

    def ends_after(self) -> dict[int, int]:
        """Return where each partition ends once it is appended there."""
        spans = {p: sum(each.span for each in some) for p, some in self.staged.items()}
        return {p: end + spans.get(p, 0) for p, end in self.ends.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRecord:
    """A micro-batch, complete in itself."""

    number: int
    """Its number among the operator's records."""

    id: str
    """The id under which everything is staged and emitted; no other attempt has it."""

    after: int | None
    """The record that was the last one when it began; ``None`` before the first."""

    at_ms: int
    """When its changes were made."""

    stores: Mapping[str, StoreWrite]
    """What it changes, by store."""

    told: Mapping[str, Any]
    """What the operator has to remember, as JSON."""

    def batch(self, names: OperatorNames) -> Batch:
        """Return the record as the logs of stores know it."""
        return Batch(names.stream, self.number)

    def pack(self) -> bytes:
        """Return the stored form."""
        stores = {
            name: {
                "ends": {str(p): end for p, end in each.ends.items()},
                "parts": {str(p): {"staged": pack_staged(some)} for p, some in each.staged.items()},
            }
            for name, each in self.stores.items()
        }
        content = {
            "number": self.number,
            "id": self.id,
            "after": self.after,
            "at_ms": self.at_ms,
            "stores": stores,
            "told": dict(self.told),
        }
        return pack_document(_RECORD, content)

    @classmethod
    def unpack(cls, data: bytes, shown: str) -> Self:
        """Return the record of which *data* is the stored form.

        Raises:
            ChangelogCorruptedError: It is damaged, or no record.
            UnsupportedFormatError: It is of a later release.
        """
        fields = _document(data, shown, _RECORD)
        try:
            return cls(
                number=fields.integer("number"),
                id=fields.text("id"),
                after=fields.integer_or_none("after"),
                at_ms=fields.integer("at_ms"),
                stores={name: _store(each) for name, each in fields.inside("stores").items()},
                told=fields.mapping("told"),
            )
        except StoreCorruptedError as error:
            raise ChangelogCorruptedError(str(error)) from error


def pack_anchor(store: str) -> bytes:
    """Return the stored form of the choice of *store*."""
    return pack_document(_ANCHOR, {"store": store})


def unpack_anchor(data: bytes, shown: str) -> str:
    """Return the store that was chosen.

    Raises:
        ChangelogCorruptedError, UnsupportedFormatError: As `OperatorRecord.unpack`.
    """
    try:
        return _document(data, shown, _ANCHOR).text("store")
    except StoreCorruptedError as error:
        raise ChangelogCorruptedError(str(error)) from error


def _document(data: bytes, shown: str, expected: str) -> Fields:
    kind, fields = unpack_document(data, shown)
    if kind != expected:
        raise ChangelogCorruptedError(f"the object {shown} is a {kind!r}, expected {expected!r}")
    return fields


def _store(fields: Fields) -> StoreWrite:
    ends, parts = fields.inside("ends"), fields.inside("parts")
    return StoreWrite(
        ends={number: ends.integer(name) for number, name in ends.numbered()},
        staged={number: staged_in(parts.inside(name)) for number, name in parts.numbered()},
    )
