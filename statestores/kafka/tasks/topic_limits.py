"""What a topic takes of a record: how large it may be, and how far from now its time (KFK-35).

A broker judges both when it has a whole transaction's batch before it, and says of none of its
records that it is to blame. So they are judged here, while the record is at hand.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from statestores.errors import BrokerError, InvalidTimeError
from statestores.processing.record import Headers

_BATCH_BYTES = 61
_SMALLEST_BATCH_BYTES = 1_000
"""No producer is told to send less at once: a record alone is sent whatever this is."""
_UNCOUNTED_BYTES = 128
"""More than what a batch of one record has beside key, value and headers."""
_ENDLESS_MS = (1 << 63) - 1
_STAMP_OF_OTHERS_MS = 1
"""What librdkafka is told of a time that it cannot write (KFK-11)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimits:
    """The limits of one topic, by its settings; one that is not known is none."""

    largest_bytes: int | None = None
    """``max.message.bytes``: of a batch as it is sent, so also of a record that is sent alone."""

    before_ms: int = _ENDLESS_MS
    """``message.timestamp.before.max.ms``."""

    after_ms: int = _ENDLESS_MS
    """``message.timestamp.after.max.ms``: an hour, unless somebody has chosen another one."""

    is_compressed: bool = False
    """Whether the client compresses: how large a record becomes is then for the broker to say."""

    @classmethod
    def of(cls, settings: Mapping[str, str], *, is_compressed: bool) -> "TopicLimits":
        """Return the limits that *settings* of a topic say."""
        largest = settings.get("max.message.bytes", "")
        takes_any_time = settings.get("message.timestamp.type") == "LogAppendTime"
        before, after = (
            "" if takes_any_time else settings.get(f"message.timestamp.{which}.max.ms", "")
            for which in ("before", "after")
        )
        return cls(
            largest_bytes=int(largest) if largest.isdecimal() else None,
            before_ms=_milliseconds(before),
            after_ms=_milliseconds(after),
            is_compressed=is_compressed,
        )

    @property
    def easy_bytes(self) -> int | None:
        """Up to how many bytes of key and value no record without headers is too large.

        ``None`` where it is not known what is.
        """
        if self.largest_bytes is None or self.is_compressed:
            return None
        return self.largest_bytes - _UNCOUNTED_BYTES

    @property
    def earliest_ms(self) -> int:
        """The earliest time that the topic takes now."""
        return max(0, _now_ms() - self.before_ms)

    @property
    def latest_ms(self) -> int:
        """The latest time that the topic takes now, and later."""
        return _now_ms() + self.after_ms

    def check_time(self, topic: str, time_ms: int) -> None:
        """Accept a record's time, unless *topic* does not take it now.

        Raises:
            InvalidTimeError: It is too far from now.
        """
        stamp_ms = max(time_ms, _STAMP_OF_OTHERS_MS)
        for which, refused in (
            ("before", stamp_ms < self.earliest_ms),
            ("after", stamp_ms > self.latest_ms),
        ):
            if refused:
                limit_ms = self.before_ms if which == "before" else self.after_ms
                raise InvalidTimeError(
                    f"the topic {topic!r} takes no time more than {limit_ms} ms {which} now "
                    f"(message.timestamp.{which}.max.ms), got {time_ms}: look whether it is in "
                    "milliseconds, or let the topic take it"
                )

    def check_size(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Accept a record, unless it is too large for *topic* also where it is sent alone.

        Requires: there are `easy_bytes`; a record within them need not be asked about.

        Raises:
            BrokerError: It is.
        """
        size = _batch_bytes(key, value, headers)
        if self.largest_bytes is not None and size > self.largest_bytes:
            raise BrokerError(
                f"the record is too large for the topic {topic!r}: {size} bytes, and its "
                f"max.message.bytes is {self.largest_bytes}; write less, or let the topic take more"
            )


def largest_batch(limits: Iterable[TopicLimits]) -> int | None:
    """Return how much all of the topics take at once; ``None`` where none is known to refuse."""
    known = [each.largest_bytes for each in limits if each.largest_bytes is not None]
    return max(_SMALLEST_BATCH_BYTES, min(known)) if known else None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _milliseconds(value: str) -> int:
    return int(value) if value.isdecimal() else _ENDLESS_MS


def _batch_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return how large the batch is of a record alone: Kafka's format 2, without compression."""
    body = 3 + _field_bytes(key) + _field_bytes(value) + _varint_bytes(len(headers))
    for name, content in headers:
        body += _field_bytes(name.encode()) + _field_bytes(content)
    return _BATCH_BYTES + _varint_bytes(body) + body


def _field_bytes(content: bytes | None) -> int:
    return 1 if content is None else _varint_bytes(len(content)) + len(content)


def _varint_bytes(number: int) -> int:
    return max(1, ((number << 1).bit_length() + 6) // 7)
