"""The intent of a staged write: what is about to be appended to the changelogs of a store.

A write that touches several partitions cannot append to all of their changelogs at once. So it
first says, in one small file, what it is going to append and where: from then on the write has
happened, and whoever finds it unfinished finishes it, or reads it as if it were::

    ROOT/<store>/.writes/intent.json       the last write of the store, finished or not
    ROOT/<store>/.writes/<write id>/       the rows that its tasks have staged, and the time of the
                                           commit (`commit_time`)

The file stays when the write is finished: a reader that finds the same one before and after it has
looked at several changelogs has seen none of them half-way.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa

from statestores.changelog.file_log import wall_clock_ms
from statestores.changelog.frame import Frame, FrameKind
from statestores.changelog.rows import empty_batch
from statestores.errors import InvalidArgumentError, StoreCorruptedError
from statestores.files.durable_json import check_format, read_text, write_json
from statestores.files.strict_json import Fields, parse_object
from statestores.spi.offsets import Position
from statestores.staging.commit_time import note_commit_time, noted_commit_time
from statestores.staging.staged_rows import (
    StagedFile,
    in_frames,
    staged_batches,
    staged_file_from_fields,
)

STAGING_DIRECTORY = ".writes"
"""The directory of a store's staged writes; its name cannot be that of a partition."""

INTENT_FILE = "intent.json"

_FORMAT = 1
_FORMAT_WITH_SEQUENCES = 2
"""Of an intent whose rows are numbered: a release that does not know the numbers refuses it."""

_FORMAT_WITH_BATCHES = 3
"""Of an intent that says which batches of streams are applied, so that no release forgets them."""

_FORMATS = frozenset({_FORMAT, _FORMAT_WITH_SEQUENCES, _FORMAT_WITH_BATCHES})

_WRITE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWrite:
    """What a write appends to the changelog of one partition."""

    base_offset: int
    """The end offset of the changelog before the write."""

    end_offset: int
    """The end offset after it."""

    files: tuple[StagedFile, ...]
    """The rows to append, in the order of the files."""

    first_sequence: int | None = None
    """The sequence of the first row, where duplicates are retained; the next one has the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBatch:
    """One batch of a stream that writes to the store, which may come again after a crash."""

    stream: str
    """Which stream it is; the same name after a restart, and never that of another one."""

    number: int
    """The number of the batch, from 0; later batches have higher ones."""

    def is_in(self, batches: Mapping[str, int]) -> bool:
        """Return whether *batches*, the last one of each stream, say that it is applied."""
        return batches.get(self.stream, -1) >= self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteIntent:
    """One write to a store, complete in itself."""

    write_id: str
    """Which write it is."""

    overwrite: bool
    """Whether each changelog gets a clear first."""

    finished: bool
    """Whether everything has been appended, so that the rest is history."""

    partitions: Mapping[int, PartitionWrite]
    """What is appended, by partition; partitions that are not touched are not here. When it is
    finished, where this write and those before it have left changelogs, without files."""

    batches: Mapping[str, int] = field(default_factory=dict)
    """The last batch of each stream that is applied, this write included. Every intent takes over
    those of the one before it, so the answer is as durable as the writes themselves."""

    committed_at_ms: int | None = None
    """The time of everything that it appends. ``None`` when it is finished, and where an earlier
    release has committed it: then it is of the time at which it is appended, or read."""

    @property
    def appended_at_ms(self) -> int:
        """The time that its frames get, which are of now where nothing else is said."""
        return wall_clock_ms() if self.committed_at_ms is None else self.committed_at_ms


def check_write_id(write_id: str) -> str:
    """Accept the id of a write, which names a directory.

    Raises:
        InvalidArgumentError: It has other characters than letters, digits, ``_`` and ``-``.
    """
    if not _WRITE_ID.fullmatch(write_id):
        raise InvalidArgumentError(
            "the id of a write has 1 to 64 letters, digits, '_' and '-', as uuid4().hex; "
            f"got {write_id!r}"
        )
    return write_id


def staging_directory(store_directory: Path) -> Path:
    """Return where the writes of the store in *store_directory* are staged."""
    return store_directory / STAGING_DIRECTORY


def write_directory(store_directory: Path, write_id: str) -> Path:
    """Return where the write *write_id* stages its rows."""
    return staging_directory(store_directory) / check_write_id(write_id)


def store_intent(store_directory: Path, intent: WriteIntent) -> None:
    """Make *intent* durable: while it is unfinished, this is the commit of the write.

    Raises:
        StorageError: It cannot be written; then nothing has happened.
    """
    numbered = any(write.first_sequence is not None for write in intent.partitions.values())
    version = _FORMAT_WITH_SEQUENCES if numbered else _FORMAT
    content = {"format": _FORMAT_WITH_BATCHES if intent.batches else version, **asdict(intent)}
    del content["committed_at_ms"]  # no field, since releases that do not know it would refuse it
    if intent.committed_at_ms is not None and not intent.finished:
        note_commit_time(write_directory(store_directory, intent.write_id), intent.committed_at_ms)
    if not intent.batches:
        del content["batches"]
    content["partitions"] = {
        str(number): {name: value for name, value in write.items() if value is not None}
        for number, write in content["partitions"].items()
    }
    content = json.loads(json.dumps(content))  # tuples become lists, as they are read again
    write_json(
        staging_directory(store_directory) / INTENT_FILE,
        {**content, "crc32c": _checksum(content)},
    )


def read_intent(store_directory: Path) -> WriteIntent | None:
    """Return the last write of the store in *store_directory*; ``None`` if there was none.

    Raises:
        StoreCorruptedError, UnsupportedFormatError, StorageError: It cannot be read.
    """
    file = staging_directory(store_directory) / INTENT_FILE
    data = read_text(file)
    if data is None:
        return None
    parse = _parsed_before if len(data) <= _REMEMBERED_BYTES else _parsed
    intent = parse(data, str(file))
    if intent.finished:
        return intent
    directory = write_directory(store_directory, intent.write_id)
    return replace(intent, committed_at_ms=noted_commit_time(directory))


def _parsed(data: bytes, file: str) -> WriteIntent:
    """Return the intent that *data* are, what *file* has; its time lies elsewhere.

    Raises:
        StoreCorruptedError, UnsupportedFormatError: They are none.
    """
    content = parse_object(data, repr(file))
    if content.pop("crc32c", None) != _checksum(content):
        raise StoreCorruptedError(
            f"{file!r} does not have the checksum that it says: it is damaged or was edited"
        )
    fields = Fields(content, repr(file))
    check_format(fields, file, *sorted(_FORMATS))
    fields.only("format", "write_id", "overwrite", "finished", "partitions", "batches")
    if not _WRITE_ID.fullmatch(fields.text("write_id")):
        fields.refuse("write_id", "the id of a write")
    writes = fields.inside("partitions")
    batches = fields.inside("batches") if "batches" in content else None
    return WriteIntent(
        write_id=fields.text("write_id"),
        overwrite=fields.flag("overwrite"),
        finished=fields.flag("finished"),
        partitions={
            number: _partition_write(number, writes.inside(name))
            for number, name in writes.numbered()
        },
        batches={} if batches is None else {stream: batches.integer(stream) for stream in batches},
    )


_REMEMBERED_BYTES = 1 << 16
_parsed_before = lru_cache(maxsize=64)(_parsed)
"""A write and each read look at the same intent several times, to see that it is the same: it is
read each time, and parsed once."""


def is_unfinished(store_directory: Path, write_id: str) -> bool:
    """Return whether *write_id* is committed and has not been finished."""
    intent = read_intent(store_directory)
    return intent is not None and intent.write_id == write_id and not intent.finished


def end_for_readers(store_directory: Path, partition: int, end_offset: int) -> int:
    """Return where *partition* ends for readers, whose changelog ends at *end_offset*.

    They count what an unfinished write is still to append; so do the snapshots that they write.

    Raises:
        StoreCorruptedError, UnsupportedFormatError, StorageError: The intent cannot be read.
    """
    intent = read_intent(store_directory)
    write = None if intent is None or intent.finished else intent.partitions.get(partition)
    return end_offset if write is None else max(end_offset, write.end_offset)


def _partition_write(number: int, fields: Fields) -> PartitionWrite:
    fields.only("base_offset", "end_offset", "files", "first_sequence")
    base = fields.integer("base_offset")
    files = tuple(map(staged_file_from_fields, fields.objects("files")))
    if any(file.partition != number for file in files):
        fields.refuse("files", f"files of the partition {number}")
    return PartitionWrite(
        base_offset=base,
        end_offset=fields.integer("end_offset", base),
        files=files,
        first_sequence=fields.integer_or_none("first_sequence"),
    )


def finished(intent: WriteIntent, ends: Mapping[int, int]) -> WriteIntent:
    """Return what is left to say when all of *intent* has been appended.

    That is where it has left changelogs; *ends* says the same of the writes before it.
    """
    own = {number: write.end_offset for number, write in intent.partitions.items()}
    left = {number: _left_at(end) for number, end in sorted({**ends, **own}.items())}
    return replace(intent, finished=True, partitions=left, committed_at_ms=None)


def _left_at(end_offset: int) -> PartitionWrite:
    return PartitionWrite(base_offset=end_offset, end_offset=end_offset, files=())


def planned(
    base_offset: int,
    files: Sequence[StagedFile],
    *,
    overwrite: bool,
    first_sequence: int | None = None,
) -> PartitionWrite:
    """Return what a write of *files* appends to a changelog that ends at *base_offset*."""
    return PartitionWrite(
        base_offset=base_offset,
        end_offset=base_offset + overwrite + sum(file.rows for file in files),
        files=tuple(files),
        first_sequence=first_sequence,
    )


def intended_frames(
    store_directory: Path,
    intent: WriteIntent,
    partition: int,
    schema: pa.Schema,
    start: int,
    *,
    checked: bool = False,
) -> Iterator[Frame]:
    """Yield what *intent* appends to the changelog of *partition* from the offset *start* on.

    *checked* says that the caller has checked its files.

    Raises:
        StoreNotFoundError: A staged file is gone; the write may have been finished meanwhile.
        StoreCorruptedError, StorageError: One cannot be read.
    """
    write = intent.partitions[partition]
    offset, at_ms = write.base_offset, intent.appended_at_ms
    if intent.overwrite:
        if start <= offset:
            yield _frame(FrameKind.CLEAR, offset, empty_batch(schema), at_ms)
        offset += 1
    sequence = write.first_sequence
    directory = write_directory(store_directory, intent.write_id)
    rows = staged_batches(directory, write.files, schema, checked=checked)
    for batch in in_frames(rows, schema):
        changes = batch if sequence is None else with_sequences(batch, sequence)
        frame = _frame(FrameKind.CHANGES, offset, changes, at_ms)
        offset = frame.last_offset + 1
        if sequence is not None:
            sequence += batch.num_rows
        if offset > start:
            yield frame.within(start, offset)


def _frame(kind: FrameKind, offset: int, batch: pa.RecordBatch, appended_at_ms: int) -> Frame:
    return Frame(
        kind=kind,
        base_offset=offset,
        last_offset=offset + max(batch.num_rows, 1) - 1,
        appended_at_ms=appended_at_ms,
        position=Position(),
        batch=batch,
    )


def with_sequences(changes: pa.RecordBatch, first_sequence: int) -> pa.RecordBatch:
    """Return *changes* with sequences from *first_sequence* on."""
    place = changes.schema.get_field_index("sequence")
    numbers = pa.array(np.arange(changes.num_rows, dtype=np.int64) + first_sequence)
    return changes.set_column(place, changes.schema.field(place), numbers)


def _checksum(content: dict[str, Any]) -> str:
    """Return the CRC32C of *content* in one spelling, as eight hexadecimal digits."""
    compact = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{google_crc32c.value(compact.encode('ascii')):08x}"
