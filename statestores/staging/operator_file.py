"""The last micro-batch of a stateful operator: the file whose rename commits it.

A micro-batch may change several stores and emits rows as well. So it is committed by one small
file, which names what the tasks have staged; what it says is then carried out, by whoever finds it
if the driver has died meanwhile::

    ROOT/@stateful/<operator>/batch.json       the last micro-batch
    ROOT/@stateful/<operator>/<write id>/      what its function has emitted

The file stays when everything is carried out: a micro-batch that comes again finds its rows there.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from statestores.arrow.file_access import reporting
from statestores.errors import InvalidArgumentError, StoreCorruptedError
from statestores.files.durable_json import check_format, read_fields, write_json
from statestores.files.strict_json import Fields
from statestores.files.tree_removal import remove_tree
from statestores.root_document import check_checksum, with_checksum
from statestores.staging.staged_rows import StagedFile, staged_file_from_fields
from statestores.staging.write_intent import StreamBatch, check_write_id

RECORD_FILE = "batch.json"

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreChanges:
    """What a micro-batch appends to the changelogs of one store."""

    end_offsets: Mapping[int, int]
    """Where the changelogs ended before, by partition."""

    files: tuple[StagedFile, ...]
    """The staged rows."""

    def ends_after(self) -> dict[int, int]:
        """Return where the changelogs end once the rows are appended, by partition."""
        ends = dict(self.end_offsets)
        for file in self.files:
            ends[file.partition] = ends.get(file.partition, 0) + file.rows
        return ends


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One micro-batch, complete in itself."""

    operator: str
    """The operator, by its name."""

    query: str
    """The query, by the id of its checkpoint."""

    number: int
    """The number of the micro-batch in the query."""

    write_id: str
    """The name under which its tasks have staged."""

    stores: Mapping[str, StoreChanges]
    """What it changes, by store."""

    outputs: tuple[StagedFile, ...]
    """What its function has emitted, a file for each partition that has emitted something."""

    columns: str
    """Their columns, as Arrow names them."""

    @property
    def batch(self) -> StreamBatch:
        """The micro-batch as the stores know it."""
        return StreamBatch(stream=f"{self.operator}@{self.query}", number=self.number)

    def check_ends(self, store: str, found: Mapping[int, int], *, is_done: bool = True) -> None:
        """Accept the *store* whose changelogs end at *found*, if none has lost what it had.

        That is what was there before the micro-batch, and, when it *is_done*, its changes too.

        Raises:
            StoreCorruptedError: One has.
        """
        changes = self.stores[store]
        expected = changes.ends_after() if is_done else changes.end_offsets
        for number, end in expected.items():
            here = found.get(number, end)  # a reshard may have left fewer partitions
            if here < end:
                raise StoreCorruptedError(
                    f"the changelog of {store!r} ends before {here} in partition {number}, and the "
                    f"micro-batch {self.number} of {self.operator!r} has left it at {end}: it has "
                    "been removed, or put back from an older copy; put back the newest one, or "
                    "begin with a new state and a new checkpoint"
                )


def store_record(directory: Path, record: BatchRecord) -> None:
    """Make *record* durable: this is the commit of the micro-batch.

    Raises:
        StorageError: It cannot be written; then nothing has happened.
    """
    content = asdict(record)
    for name, changes in content["stores"].items():
        ends = {str(number): end for number, end in changes["end_offsets"].items()}
        content["stores"][name] = {**changes, "end_offsets": ends}
    written = {"format": _FORMAT, **json.loads(json.dumps(content))}
    write_json(directory / RECORD_FILE, with_checksum(written))


def read_record(directory: Path) -> BatchRecord | None:
    """Return the last micro-batch of the operator in *directory*; ``None`` before the first.

    Raises:
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    path = directory / RECORD_FILE
    fields = read_fields(path)
    if fields is None:
        return None
    check_format(fields, path, _FORMAT)
    try:
        check_write_id(fields.text("write_id"))
    except InvalidArgumentError as error:
        raise StoreCorruptedError(f"{str(path)!r} is malformed: {error}") from error
    record = BatchRecord(
        operator=fields.text("operator"),
        query=fields.text("query"),
        number=fields.integer("number"),
        write_id=fields.text("write_id"),
        stores={
            name: StoreChanges(end_offsets=_ends(each.inside("end_offsets")), files=_files(each))
            for name, each in fields.inside("stores").items()
        },
        outputs=_files(fields, "outputs"),
        columns=fields.text("columns"),
    )
    check_checksum(fields, repr(str(path)))
    return record


def forget_record(directory: Path) -> None:
    """Remove the record: what it names has not happened, and will not.

    Raises:
        StorageError: It cannot be removed.
    """
    with reporting("remove", directory / RECORD_FILE):
        (directory / RECORD_FILE).unlink(missing_ok=True)


def remove_other_outputs(directory: Path, kept: str) -> None:
    """Remove what other micro-batches than *kept*, finished or failed, have emitted.

    A second attempt of a task of theirs may be writing still.

    Raises:
        StorageError: It cannot be removed.
    """
    with reporting("clean up", directory):
        for path in directory.iterdir() if directory.is_dir() else ():
            if path.is_dir() and path.name != kept:
                remove_tree(path)


def _ends(fields: Fields) -> dict[int, int]:
    return {number: fields.integer(name) for number, name in fields.numbered()}


def _files(fields: Fields, name: str = "files") -> tuple[StagedFile, ...]:
    return tuple(map(staged_file_from_fields, fields.objects(name)))
