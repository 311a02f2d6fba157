"""The options of the data source: from Spark's strings to one frozen value, in one place.

Names are those a user writes, without regard to case. An option that is unknown, or that has no
meaning for what is being done, is an error: an option that is silently ignored is a wrong result.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from statestores.errors import InvalidOptionError
from statestores.serdes.rows.row_serde import read_schema
from statestores.serdes.rows.schema import StructType
from statestores.spark.options.combinations import CONTENT_ONLY, check_combination
from statestores.spark.options.declaration import option
from statestores.spark.options.foreign_names import (
    refuse_names_of_other_writers,
    without_aliases,
)
from statestores.spark.options.storage import (
    EXPECTED,
    STORAGE_OPTIONS,
    STORAGE_SECRETS,
    merged_storage,
    read_storage,
)
from statestores.spark.options.values import (
    Offsets,
    read_any_text,
    read_count,
    read_duration,
    read_flag,
    read_freshness,
    read_last_offsets,
    read_names,
    read_numbers,
    read_offsets,
    read_one_of,
    read_text,
    read_texts,
    read_time,
)
from statestores.spi.kinds import KINDS
from statestores.text.times import DURATION_EXPECTED

DEFAULT_PARTITIONS = 4
"""Partitions of a store that a write creates without saying how many."""

STORE_KINDS: Final = tuple(KINDS)
"""The kinds of store that a write can make."""

KAFKA_KINDS: Final = (
    *STORE_KINDS,
    "timestamped-window",
    "time-first-window",
    "time-first-session",
)
"""The kinds of store that Kafka Streams writes; those of `KafkaKind`, which needs pyarrow."""

METADATA: Final = ("stores", "partitions", "snapshots", "commits")
"""What can be read of a state root itself; see `statestores.reading.root_tables`."""

_READING: Final = "reading"
_WRITING: Final = "writing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What was asked of the data source."""

    path: str = option(
        "path", read_text, "the path of a state root", _READING, _WRITING, default=""
    )
    """The state root: the directory with ``statestores.json``, or its URL in an object store."""

    storage_options: Mapping[str, object] | None = option(  # it returns a field
        STORAGE_OPTIONS, read_storage, EXPECTED, _READING, _WRITING, shown=False
    )
    """How the object store of a URL is reached, but for credentials; what is missing comes from
    the environment of the driver and of each executor."""

    storage_secrets: Mapping[str, object] | None = option(  # it returns a field
        STORAGE_SECRETS, read_storage, EXPECTED, _READING, _WRITING, shown=False
    )
    """The credentials for it. Spark redacts an option of this name in plans and logs."""

    store_name: str | None = option(
        "storeName", read_text, "the name of a store", _READING, _WRITING
    )
    """The store; not needed where the state root has only one."""

    # Reading.

    metadata: str | None = option(
        "metadata", read_one_of(*METADATA), f"one of {', '.join(METADATA)}", _READING
    )
    """What the state root says of itself, instead of content: of one store, or of all."""

    as_of_ms: int | None = option(
        "asOf", read_time, "milliseconds since the epoch or an ISO 8601 time", _READING
    )
    """Versioned stores: the versions that were valid then, instead of the latest."""

    history: bool = option("history", read_flag, "true or false", _READING, default=False)
    """Versioned stores: every version that the retention keeps."""

    offset: Offsets | None = option(  # noqa: RUF009  # it returns a field
        "offset", read_offsets, 'an offset, or a JSON object such as {"0": 41}', _READING
    )
    """The content at this changelog offset, instead of now; of each partition, or of those named
    (the others are read as they are now)."""

    timestamp_as_of_ms: int | None = option(
        "timestampAsOf", read_time, "milliseconds since the epoch or an ISO 8601 time", _READING
    )
    """The content after the last change that was committed then or earlier, by the clock of whoever
    committed it; `asOf` is about when versions were valid."""

    read_change_feed: bool = option(
        "readChangeFeed", read_flag, "true or false", _READING, default=False
    )
    """The changes, instead of the content."""

    starting_offset: Offsets | None = option(  # noqa: RUF009  # it returns a field
        "startingOffset", read_offsets, 'an offset, or a JSON object such as {"0": 41}', _READING
    )
    """Change feed: the first offset; by default the first that the changelog still has."""

    ending_offset: Offsets | None = option(  # noqa: RUF009  # it returns a field
        "endingOffset", read_offsets, 'an offset, or a JSON object such as {"0": 41}', _READING
    )
    """Change feed: the last offset, inclusive; by default the last that there is."""

    key: str | None = option("key", read_any_text, "a key as text", _READING)
    """This key only."""

    keys: tuple[str, ...] | None = option(
        "keys", read_texts, "a JSON list of keys as text", _READING
    )
    """These keys only."""

    key_prefix: str | None = option("keyPrefix", read_any_text, "the beginning of a key", _READING)
    """The keys that begin with this."""

    key_from: str | None = option("keyFrom", read_any_text, "a key as text", _READING)
    """The keys from this one on, inclusive."""

    key_to: str | None = option("keyTo", read_any_text, "a key as text", _READING)
    """The keys up to this one, inclusive."""

    columns: tuple[str, ...] | None = option(
        "columns", read_names, "different column names, separated by commas", _READING
    )
    """Give these columns only. Spark does not tell a Python source which ones it needs."""

    partitions: tuple[int, ...] | None = option(
        "partitions", read_numbers, "different partition numbers, separated by commas", _READING
    )
    """Read these partitions only."""

    raw: bool = option("raw", read_flag, "true or false", _READING, _WRITING, default=False)
    """Keys and values as bytes, and times as milliseconds: everything as it is stored."""

    kafka_kind: str | None = option(
        "kafkaKind", read_one_of(*KAFKA_KINDS), f"one of {', '.join(KAFKA_KINDS)}", _READING
    )
    """State directories of Kafka Streams: the kind of a store whose bytes fit several."""

    freshness_ms: int | None = option(
        "freshness", read_freshness, f"latest, snapshot, or an age: {DURATION_EXPECTED}", _READING
    )
    """How old the content may be: a snapshot of up to this age is read alone, which is cheaper.
    ``None`` is the latest: the snapshot and the changelog after it."""

    offset_column: str | None = option("offsetColumn", read_text, "a name for the column", _READING)
    """Content: a column of this name with the changelog offset that the row's partition is read
    at."""

    partition_column: str | None = option(
        "partitionColumn", read_text, "a name for the column", _READING
    )
    """Content: a column of this name with the partition of the row."""

    memory_per_task: int = option(
        "memoryPerTask", read_count, "a number of bytes from 1", _READING, default=256 * 1024 * 1024
    )
    """Content: about how many bytes a task takes for changes after a snapshot; more are spilled."""

    splits: int | None = option("splits", read_count, "a number from 1", _READING)
    """Content: how many tasks read one partition of the store, if its snapshot is large enough."""

    max_rows_per_task: int | None = option(
        "maxRowsPerTask", read_count, "a number from 1", _READING
    )
    """Content: about how many rows of a snapshot one task reads."""

    push_filters: bool = option("pushFilters", read_flag, "true or false", _READING, default=False)
    """Whether the query's filters select what is read. Refused while PySpark keeps the filters of
    one query for the next."""

    starting_timestamp_ms: int | None = option(
        "startingTimestamp", read_time, "milliseconds since the epoch or ISO 8601", _READING
    )
    """Change feed: from the first change that was appended then or later."""

    ending_timestamp_ms: int | None = option(
        "endingTimestamp", read_time, "milliseconds since the epoch or ISO 8601", _READING
    )
    """Change feed: up to the last change before the first that was appended after it."""

    before_image: bool = option("beforeImage", read_flag, "true or false", _READING, default=False)
    """Change feed: a column ``before`` with the value that a change replaced."""

    input_position: bool = option(
        "inputPosition", read_flag, "true or false", _READING, default=False
    )
    """Change feed: a column ``position`` with the input that the commit of a change reflects."""

    commit_columns: bool = option(
        "commitColumns", read_flag, "true or false", _READING, default=False
    )
    """Change feed: what other tables say of a change, in the columns that they have for it."""

    # Writing. All but the first two say what a store is that does not exist yet.

    if_exists: str | None = option(
        "ifExists", read_one_of("write", "fail", "ignore"), "write, fail or ignore", _WRITING
    )
    """What to do when the store is there already: write as the mode says, raise, or do nothing."""

    on_conflict: str = option(
        "onConflict", read_one_of("fail", "merge"), "fail or merge", _WRITING, default="fail"
    )
    """What to do when another has written to the store since this write was planned."""

    commit_timeout_ms: int = option(
        "commitTimeout", read_duration, DURATION_EXPECTED, _WRITING, default=60_000
    )
    """How long a write waits at its commit while another writes to the store, or an owner has it
    open; 0 does not wait. A minute: most writes hold the locks for seconds."""

    expected_offset: Offsets | None = option(  # noqa: RUF009  # it returns a field
        "expectedOffset",
        read_last_offsets,
        'an offset, or a JSON object such as {"0": 41}',
        _WRITING,
    )
    """The last offsets of the state that the rows were made from; where the store has gone on
    since, it is a conflict. By default what there is when the write is planned."""

    snapshot: str = option(
        "snapshot",
        read_one_of("auto", "always", "never"),
        "auto, always or never",
        _WRITING,
        default="never",
    )
    """Whether a write that begins or replaces a store leaves snapshots, instead of changes."""

    snapshot_interval: int | None = option(
        "snapshotInterval", read_count, "a number of micro-batches from 1", _WRITING
    )
    """Streams: after how many micro-batches each partition gets another snapshot."""

    store_kind: str | None = option(
        "storeKind", read_one_of(*STORE_KINDS), f"one of {', '.join(STORE_KINDS)}", _WRITING
    )
    """The kind; by default the one that the other options and the columns point to."""

    history_retention_ms: int | None = option(
        "historyRetention", read_duration, DURATION_EXPECTED, _WRITING
    )
    """Versioned stores: how far back history goes."""

    retention_ms: int | None = option("retention", read_duration, DURATION_EXPECTED, _WRITING)
    """Window and session stores: how far behind stream time a window's start, or a session's end,
    is kept."""

    window_size_ms: int | None = option("windowSize", read_duration, DURATION_EXPECTED, _WRITING)
    """Window stores: how long each window is."""

    retain_duplicates: bool | None = option(
        "retainDuplicates", read_flag, "true or false", _WRITING
    )
    """Window stores: whether each row adds a value to its window, instead of replacing it."""

    ttl_ms: int | None = option("ttl", read_duration, DURATION_EXPECTED, _WRITING)
    """Key-value stores with timestamps: how long a value stays; by default for ever."""

    ttl_clock: str | None = option(
        "ttlClock", read_one_of("event", "wall"), "event or wall", _WRITING
    )
    """By what the age of a value is measured; by default stream time."""

    num_partitions: int | None = option("numPartitions", read_count, "a number from 1", _WRITING)
    """How many partitions; only a reshard changes it."""

    key_serde: str | None = option("keySerde", read_text, "the name of a serde", _READING, _WRITING)
    """The serde of keys; by default the one for the column's type. In reads: of Kafka's files."""

    value_serde: str | None = option(
        "valueSerde", read_text, "the name of a serde", _READING, _WRITING
    )
    """The serde of values; by default the one for the column's type. In reads: as for keys."""

    value_schema: StructType | None = option(  # noqa: RUF009  # it returns a field
        "valueSchema", read_schema, "fields such as id BIGINT NOT NULL, name STRING", _READING
    )
    """Values of JSON or MessagePack as structs of this schema."""

    merge_schema: bool = option("mergeSchema", read_flag, "true or false", _WRITING, default=False)
    """Whether new fields and wider types of the column of values grow the schema of the store."""

    partitioner: str | None = option(
        "partitioner", read_text, "the name of a partitioner", _WRITING
    )
    """The partitioner; by default Kafka's."""

    @property
    def given(self) -> frozenset[str]:
        """The names of the options that say something other than their defaults."""
        return frozenset(
            each.metadata["name"]
            for each in fields(self)
            if getattr(self, each.name) != each.default
        )

    @property
    def storage(self) -> dict[str, object] | None:
        """How the object store is reached, credentials among it; ``None`` if nothing is said.

        Raises:
            InvalidOptionError: A credential is where Spark would show it.
        """
        return merged_storage(self.storage_options, self.storage_secrets)

    @property
    def content_only(self) -> list[str]:
        """The names of those that mean something only for the content of a state root, sorted."""
        return sorted(self.given & CONTENT_ONLY)

    @classmethod
    def for_reading(cls, options: Mapping[str, str]) -> Self:
        """Read *options* of a load.

        Raises:
            InvalidOptionError: One is unknown, is not for reading, has a value that cannot be
                read, or does not go with another.
        """
        parsed = cls._parse(options, _READING)
        check_combination(parsed.given)
        return parsed

    @classmethod
    def for_writing(cls, options: Mapping[str, str]) -> Self:
        """Read *options* of a save.

        Raises:
            InvalidOptionError: As for reading.
        """
        return cls._parse(options, _WRITING)

    @classmethod
    def _parse(cls, options: Mapping[str, str], purpose: str) -> Self:
        known = {each.metadata["name"].lower(): each for each in fields(cls)}
        values: dict[str, Any] = {}
        if purpose == _READING:
            options = without_aliases(options)
        else:
            refuse_names_of_other_writers(options)
        for name, text in options.items():
            found = known.get(name.lower())
            if found is None or purpose not in found.metadata["purposes"]:
                usable = ", ".join(
                    each.metadata["name"]
                    for each in fields(cls)
                    if purpose in each.metadata["purposes"]
                )
                wrong = (
                    f"unknown option {name!r}"
                    if found is None
                    else f"the option {found.metadata['name']!r} is not for {purpose}"
                )
                raise InvalidOptionError(f"{wrong}; known for {purpose}: {usable}")
            try:
                values[found.name] = found.metadata["read"](text)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                about = found.metadata
                wrong = f"option {about['name']!r} must be {about['expected']}"
                if not about["shown"]:  # neither is the text, nor an error that quotes it
                    raise InvalidOptionError(f"{wrong}, and is none") from None
                raise InvalidOptionError(f"{wrong}, got {text!r}") from error
        merged_storage(values.get("storage_options"), values.get("storage_secrets"))
        if "path" not in values:
            raise InvalidOptionError(
                "the option 'path' is missing: give the directory of a state root to load() or "
                "save(); a table in SQL needs it at each use, WITH (path = '...')"
            )
        return cls(**values)
