"""The options that only streams have, told apart from those of every read and write.

Spark asks for the columns of a load without saying whether it is for a stream. To a streaming write
it also hands options that are its own, such as where the checkpoint is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias

from statestores.errors import InvalidOptionError
from statestores.spark.options.foreign_names import without_aliases

Start: TypeAlias = int | Literal["earliest", "latest"]
"""Where a stream begins to read a partition: at an offset, or at an end of the changelog."""

_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
"""What Spark uses itself, and hands on."""

_STARTING_OFFSET: Final = "startingOffset"
MAX_RECORDS: Final = "maxRecordsPerTrigger"
MAX_BYTES: Final = "maxBytesPerTrigger"
_FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"

STREAM_OPTIONS: Final = (_STARTING_OFFSET, MAX_RECORDS, MAX_BYTES, _FAIL_ON_DATA_LOSS)
"""The options of a streaming read; the first one is also one of a batch, with offsets only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What was asked of a streaming read, beyond what a batch can ask."""

    starting_offset: Start | Mapping[int, Start] = "earliest"
    """Where a new query begins; partitions that are not named begin at the earliest offset."""

    max_records: int | None = None
    """How many offsets one micro-batch takes at most; by default all that there are."""

    max_bytes: int | None = None
    """About how many bytes of the changelogs one micro-batch takes; by default all."""

    fail_on_data_loss: bool = True
    """Whether changes that are gone before the query has read them make it fail."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Read those of *options* that are for streams; `without_stream_options` gives the rest.

        Raises:
            InvalidOptionError: One has a value that cannot be read.
        """
        given = {name.lower(): text for name, text in without_aliases(options).items()}
        start = given.get(_STARTING_OFFSET.lower())
        return cls(
            starting_offset="earliest" if start is None else _starts(start),
            max_records=_limit(MAX_RECORDS, given),
            max_bytes=_limit(MAX_BYTES, given),
            fail_on_data_loss=_flag(_FAIL_ON_DATA_LOSS, given, default=True),
        )

    def start_of(self, partition: int) -> Start:
        """Return where a new query begins to read *partition*."""
        if isinstance(self.starting_offset, Mapping):
            return self.starting_offset.get(partition, "earliest")
        return self.starting_offset


def without_stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return *options* of a read without those that are for streams.

    None of them affects the columns.
    """
    own = {name.lower() for name in STREAM_OPTIONS}
    known = without_aliases(options)
    return {name: text for name, text in known.items() if name.lower() not in own}


def without_sparks_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return *options* of a streaming write without those that Spark takes for itself."""
    return {name: text for name, text in options.items() if name.lower() not in _SPARKS_OWN}


def _starts(text: str) -> Start | Mapping[int, Start]:
    try:
        if text.lower() in {"earliest", "latest"}:
            return _start(text.lower())
        content = json.loads(text)
        if isinstance(content, dict) and content:
            return _by_partition(content)
        return _start(content)
    except (ValueError, RecursionError) as error:
        raise InvalidOptionError(
            f"option {_STARTING_OFFSET!r} must be earliest, latest, an offset, or a JSON object "
            f'such as {{"0": 41, "1": "latest"}}, got {text!r}'
        ) from error


def _by_partition(content: Mapping[str, object]) -> Mapping[int, Start]:
    starts = {int(partition): _start(start) for partition, start in content.items()}
    if len(starts) < len(content):
        raise ValueError
    return starts


def _start(content: object) -> Start:
    if content == "earliest":
        return "earliest"
    if content == "latest":
        return "latest"
    if type(content) is int and content >= 0:
        return content
    raise ValueError


def _limit(name: str, given: Mapping[str, str]) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InvalidOptionError(f"option {name!r} must be a number from 1, got {text!r}")
    return int(text)


def _flag(name: str, given: Mapping[str, str], *, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    if text.lower() not in {"true", "false"}:
        raise InvalidOptionError(f"option {name!r} must be true or false, got {text!r}")
    return text.lower() == "true"
