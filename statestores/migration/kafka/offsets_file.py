"""The text files in which Kafka Streams kept offsets: ``.checkpoint`` and ``<store>.position``.

A file is a version, the number of its rows, and the rows: ``topic partition offset``. Reading is
stricter than Kafka's, since an offset that is wrong skips records: a file that was cut anywhere,
even within its last number, is refused.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from statestores.errors import (
    InvalidArgumentError,
    MalformedCheckpointError,
    StorageError,
    UnsupportedFormatError,
)
from statestores.files.durable_directory import make_durable
from statestores.spi.offsets import TopicPartition, check_offset, check_partition

UNKNOWN_OFFSET = -4
"""In a file: the store is whole, and which offset it has is not known. Here it is ``None``."""

_VERSION = "0"
_MAX_OFFSET = (1 << 63) - 1
_MAX_PARTITION = (1 << 31) - 1
_LINE_END = re.compile(r"\r\n|\r|\n")
_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)


def read_offsets_file(path: Path) -> dict[TopicPartition, int | None] | None:
    """Return the offsets in the file *path*; ``None`` when there is no such file (MIG-1).

    The offset of a partition is ``None`` where the file has the sentinel -4.

    Raises:
        MalformedCheckpointError: The file is cut or malformed; the message names file and line.
        UnsupportedFormatError: It has another version.
        StorageError: It cannot be read.
    """
    try:
        # Not as text: its line ends are a part of the format, and Python would make them one.
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise MalformedCheckpointError(
            f"{str(path)!r}, line {line}: not UTF-8, expected text; restore the store from its "
            "changelog, or put a whole file in its place"
        ) from error
    except OSError as error:
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    lines = _LINE_END.split(text)
    if lines.pop():
        _refuse(path, len(lines) + 1, "the last line has no end, so the file may be cut")
    return _parse(path, lines)


def _parse(path: Path, lines: list[str]) -> dict[TopicPartition, int | None]:
    if not lines:
        _refuse(path, 1, "the file is empty, expected a version")
    if lines[0].strip() != _VERSION:
        if _NUMBER.fullmatch(lines[0].strip()):
            raise UnsupportedFormatError(
                f"{str(path)!r}, line 1: version {lines[0].strip()}, and this release knows "
                f"{_VERSION}; upgrade statestores"
            )
        _refuse(path, 1, f"{lines[0]!r} is no version, expected {_VERSION!r}")
    if len(lines) == 1:
        _refuse(path, 2, "the number of rows is missing")
    count = _number(path, 2, lines[1].strip(), "a number of rows", 0, _MAX_OFFSET)
    offsets: dict[TopicPartition, int | None] = {}
    for number, line in enumerate(lines[2:], 3):
        if number - 2 > count:
            _refuse(path, number, f"there are more rows than the {count} of line 2")
        partition, offset = _parse_row(path, number, line)
        if partition in offsets:
            _refuse(path, number, f"{partition.topic!r} {partition.partition} is there twice")
        offsets[partition] = offset
    if len(offsets) != count:
        _refuse(
            path, len(lines) + 1, f"{len(offsets)} rows, and line 2 says {count}: the file is cut"
        )
    return offsets


def _parse_row(path: Path, line: int, text: str) -> tuple[TopicPartition, int | None]:
    fields = text.split()
    if len(fields) != 3:  # noqa: PLR2004  # topic, partition, offset
        _refuse(path, line, f"{text!r} is no row, expected: topic partition offset")
    partition = _number(path, line, fields[1], "a partition", 0, _MAX_PARTITION)
    offset = _number(path, line, fields[2], "an offset", UNKNOWN_OFFSET, _MAX_OFFSET)
    if UNKNOWN_OFFSET < offset < 0:
        _refuse(path, line, f"{offset} is no offset; below 0 there is only -4, unknown")
    return TopicPartition(fields[0], partition), None if offset == UNKNOWN_OFFSET else offset


def write_offsets_file(path: Path, offsets: Mapping[TopicPartition, int | None]) -> None:
    """Replace the file *path* by *offsets*, atomically and durably; no offsets remove it (MIG-2).

    Raises:
        InvalidTypeError, InvalidArgumentError: A partition or offset is malformed, or a topic has
            white space, which the format cannot tell from the end of a name.
        StorageError: The directory cannot be written.
    """
    for partition, offset in offsets.items():
        check_partition(partition)
        if offset is not None:
            check_offset(partition, offset)
        if len(partition.topic.split()) != 1 or partition.topic != partition.topic.strip():
            raise InvalidArgumentError(
                f"the topic {partition.topic!r} has white space, and the format has none in names"
            )
    rows = [
        f"{topic} {number} {UNKNOWN_OFFSET if offset is None else offset}\n"
        for (topic, number), offset in sorted(offsets.items())
    ]
    temporary = path.with_name(f"{path.name}.tmp")  # the name that Kafka ignores
    try:
        if rows:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                file.write(f"{_VERSION}\n{len(rows)}\n{''.join(rows)}")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        else:
            path.unlink(missing_ok=True)
        make_durable(path.parent)
    except OSError as error:
        with suppress(OSError):  # the reason is told, and a name like this one is never read
            temporary.unlink()
        raise StorageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def remove_offsets_file(path: Path) -> bool:
    """Remove the file *path*, durably; return whether it was there.

    Raises:
        StorageError: The directory cannot be written.
    """
    is_there = path.exists()
    if is_there:
        write_offsets_file(path, {})
    return is_there


def _number(path: Path, line: int, text: str, what: str, lowest: int, highest: int) -> int:
    if not _NUMBER.fullmatch(text):
        _refuse(path, line, f"{text!r} is no number, expected {what}")
    number = int(text) if len(text) < 32 else highest + 1  # noqa: PLR2004  # longer than any int64
    if not lowest <= number <= highest:
        _refuse(path, line, f"{text} is out of range for {what}")
    return number


def _refuse(path: Path, line: int, problem: str) -> NoReturn:
    raise MalformedCheckpointError(
        f"{str(path)!r}, line {line}: {problem}; remove the file to have the store restored from "
        "the beginning of its changelog"
    )
