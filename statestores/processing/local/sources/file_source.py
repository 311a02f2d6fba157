"""What sources of files have in common: where they are, and what of them is key, value and time."""

from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from statestores.errors import InvalidArgumentError
from statestores.processing.local.sources.record_fields import FieldOf, RecordFields
from statestores.processing.local.sources.source import LocalSource
from statestores.processing.topic import Topic

PartitionBy = Literal["key", "file"]
"""Whether a record's key, or the file it is from, says to which partition it goes."""


@dataclass(frozen=True)
class FileSource(LocalSource):
    """A file, the files of a directory, or those of a pattern."""

    path: str | PathLike[str]
    """The file, the directory, or a pattern such as ``orders/*.jsonl``."""

    key: FieldOf | None = field(default=None, kw_only=True)
    """Where the key is: a field such as ``user`` or ``user.id``, or a function of the line or row;
    without, records have no key."""

    value: FieldOf | None = field(default=None, kw_only=True)
    """Where the value is; without, it is the whole line or row."""

    time: FieldOf | None = field(default=None, kw_only=True)
    """Where the time is, in milliseconds or, of a column, a timestamp; without, it is that of the
    reading."""

    partition_by: PartitionBy = field(default="key", kw_only=True)
    """What chooses the partition. Records without key go by the file."""

    def fields(self, topic: Topic[Any, Any]) -> RecordFields:
        """Return what makes the records of *topic*.

        Raises:
            InvalidTypeError, InvalidArgumentError: An argument is none of those above.
        """
        if self.partition_by not in ("key", "file"):
            raise InvalidArgumentError(
                f"partition_by must be 'key' or 'file', got {self.partition_by!r}"
            )
        return RecordFields(topic, key=self.key, value=self.value, time=self.time)

    @property
    def is_partitioned_by_key(self) -> bool:
        """Whether the key says so."""
        return self.partition_by == "key"
