"""Records and the client's messages, with what a Kafka record cannot say in a header (KFK-11).

librdkafka takes a timestamp of 0 for "now", and a negative one is none. Such a time travels in a
header, and the record has the timestamp 1.
"""

from struct import Struct
from typing import Any

from confluent_kafka import Message

from statestores.processing.record import Headers, RawRecord, Record
from statestores.spi import TopicPartition
from statestores.spi.records import new_tuple

TIME_HEADER = "__statestores.time"
"""The header of a time that is no timestamp of Kafka's: int64, big-endian."""

_TIME = Struct(">q")
_INSTEAD_MS = 1


def timestamp_and_headers(time_ms: int, headers: Headers) -> tuple[int, list[Any] | None]:
    """Return timestamp and headers of a record at *time_ms*."""
    if time_ms > 0:
        return time_ms, list(headers) if headers else None
    return _INSTEAD_MS, [*headers, (TIME_HEADER, _TIME.pack(time_ms))]


def time_of(message: Message) -> int:
    """Return the time of *message*."""
    hidden = _hidden_time(_headers_of(message))
    return int(message.timestamp()[1]) if hidden is None else hidden


def record_of(message: Message) -> RawRecord:
    """Return *message* as a record; a header without data has empty data."""
    key, value, (_, stamp) = message.key(), message.value(), message.timestamp()
    carried = message.headers()
    if carried is None:
        plain: RawRecord = new_tuple(Record, (key, value, stamp, ()))
        return plain
    headers = _headers_of(message)
    hidden = _hidden_time(headers)
    if hidden is None:
        return Record(key, value, stamp, headers)
    return Record(key, value, hidden, headers[:-1])


def place_of(message: Message) -> TopicPartition:
    """Return the partition that *message* comes from, or that ends there."""
    return TopicPartition(message.topic() or "", message.partition() or 0)


def offset_of(message: Message) -> int:
    """Return the offset of *message*, or the one at which a partition ends."""
    offset: int = message.offset()  # type: ignore[assignment]  # only a produced one may have none
    return offset


def _headers_of(message: Message) -> Headers:
    # The types of the client allow what it takes; what it gives is a list of str and bytes.
    found: Any = message.headers()
    return () if found is None else tuple((name, data or b"") for name, data in found)


def _hidden_time(headers: Headers) -> int | None:
    """Return the time of the last of *headers*, if it is of that kind."""
    if not headers:
        return None
    name, data = headers[-1]
    if name != TIME_HEADER or len(data) != _TIME.size:
        return None
    time_ms: int = _TIME.unpack(data)[0]
    return time_ms
