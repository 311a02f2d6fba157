"""The kinds of store that Kafka Streams writes, and the columns of their rows.

Rows are what the files hold, in the order of the files: a store that is sorted by time first, or
that has a database for each span of time, does not give them by key.
"""

from enum import Enum

import pyarrow as pa

from statestores.spi.kinds import KINDS, SESSION, WINDOW, Kind


class KafkaKind(Enum):
    """What a database's bytes mean. Kafka Streams does not write it down."""

    KEY_VALUE = "key-value"
    """A value for each key."""

    TIMESTAMPED_KEY_VALUE = "timestamped-key-value"
    """A value and its timestamp for each key: what the DSL makes of tables."""

    VERSIONED = "versioned"
    """All values of each key within a history retention (KIP-889)."""

    WINDOW = "window"
    """A value for each key and window start; several where duplicates are retained."""

    TIMESTAMPED_WINDOW = "timestamped-window"
    """The same with a timestamp for each value: what the DSL makes of windowed aggregations."""

    SESSION = "session"
    """A value for each key, session start and session end."""

    TIME_FIRST_WINDOW = "time-first-window"
    """A timestamped window store sorted by time: what the DSL makes when it emits on close."""

    TIME_FIRST_SESSION = "time-first-session"
    """A session store sorted by time: what the DSL makes when it emits on close."""

    @property
    def store_kind(self) -> Kind:
        """The kind of store that takes the rows: what they mean, apart from how they lie."""
        return _STORE_KINDS.get(self) or KINDS[self.value]


_STORE_KINDS = {
    KafkaKind.TIMESTAMPED_WINDOW: WINDOW,
    KafkaKind.TIME_FIRST_WINDOW: WINDOW,
    KafkaKind.TIME_FIRST_SESSION: SESSION,
}
"""Of those that have another name there."""

_KEY = pa.field("key", pa.binary(), nullable=False)
_VALUE = pa.field("value", pa.binary(), nullable=False)
_TIMESTAMP = pa.field("timestamp", pa.int64())
_WINDOW = [
    _KEY,
    pa.field("window_start", pa.int64(), nullable=False),
    pa.field("sequence", pa.int32(), nullable=False),
    _VALUE,
]
_TIMESTAMPED_WINDOW = pa.schema([*_WINDOW, _TIMESTAMP])
_SESSION = pa.schema(
    [
        _KEY,
        pa.field("session_start", pa.int64(), nullable=False),
        pa.field("session_end", pa.int64(), nullable=False),
        _VALUE,
    ]
)

ROW_SCHEMAS: dict[KafkaKind, pa.Schema] = {
    KafkaKind.KEY_VALUE: pa.schema([_KEY, _VALUE]),
    KafkaKind.TIMESTAMPED_KEY_VALUE: pa.schema([_KEY, _VALUE, _TIMESTAMP]),
    KafkaKind.VERSIONED: pa.schema(
        [
            _KEY,
            pa.field("value", pa.binary()),
            pa.field("valid_from", pa.int64(), nullable=False),
            pa.field("valid_to", pa.int64()),
        ]
    ),
    KafkaKind.WINDOW: pa.schema(_WINDOW),
    KafkaKind.TIMESTAMPED_WINDOW: _TIMESTAMPED_WINDOW,
    KafkaKind.SESSION: _SESSION,
    KafkaKind.TIME_FIRST_WINDOW: _TIMESTAMPED_WINDOW,
    KafkaKind.TIME_FIRST_SESSION: _SESSION,
}
"""The columns of each kind. A null timestamp is one that Kafka Streams does not know; a null value
of a version is a deletion, and a null ``valid_to`` the latest version."""
