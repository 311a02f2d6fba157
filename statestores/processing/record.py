"""Records: what topologies are made of, with types or as the bytes of a topic."""

from typing import Generic, NamedTuple, TypeAlias, TypeVar

from statestores.errors import InvalidTypeError

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

Headers: TypeAlias = tuple[tuple[str, bytes], ...]
"""What a record carries beside key and value: names may repeat, and the order is kept."""


def check_headers(headers: object) -> None:
    """Accept headers.

    Raises:
        InvalidTypeError: They are none.
    """
    if type(headers) is not tuple or not all(
        type(each) is tuple and [type(part) for part in each] == [str, bytes] for each in headers
    ):
        raise InvalidTypeError(
            "headers are a tuple of pairs of a name and bytes, such as (('trace', b'1'),), got "
            f"{headers!r}"
        )


class Record(NamedTuple, Generic[K, V]):
    """One record: immutable, so that several operators may be given the same one.

    A named tuple, because each operator that changes a record makes one: a frozen dataclass takes
    twice as long.
    """

    key: K
    """``None`` for a record without key, whatever the type says: the input decides that."""

    value: V
    """``None`` for a record without value; in a table it is a deletion."""

    time_ms: int
    """When it happened, in milliseconds since the epoch."""

    headers: Headers = ()
    """Carried from the input to every record that is made of it."""

    def with_key(self, key: K2) -> "Record[K2, V]":
        """Return the record with another key."""
        return Record(key, self.value, self.time_ms, self.headers)

    def with_value(self, value: V2) -> "Record[K, V2]":
        """Return the record with another value."""
        return Record(self.key, value, self.time_ms, self.headers)

    def with_time(self, time_ms: int) -> "Record[K, V]":
        """Return the record at another time."""
        return Record(self.key, self.value, time_ms, self.headers)


RawRecord: TypeAlias = Record[bytes | None, bytes | None]
"""A record as a topic holds it: what runners give to a task, and get from it."""


RecordFields: TypeAlias = tuple[bytes | None, bytes | None, int, Headers]
"""Key, value, time and headers of a `RawRecord`, which is one of these itself."""
