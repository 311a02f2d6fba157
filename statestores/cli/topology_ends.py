"""Sources, sinks and retention of a topology, as options of the command line say them."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl

from statestores.errors import InvalidArgumentError
from statestores.processing.local import (
    JsonLines,
    LocalSink,
    LocalSource,
    ParquetFiles,
    ParquetSink,
    Retention,
)

_FIELDS = ("key", "value", "time", "partition_by")
_KINDS: dict[str, type[JsonLines] | type[ParquetFiles]] = {
    ".parquet": ParquetFiles,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
}
_AMOUNT = re.compile(r"(\d+)(s|m|h|d|MB|GB)")
_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "MB": 10**6, "GB": 10**9}


def parse_sources(options: Iterable[str] | None) -> dict[str, LocalSource]:
    """Return the sources that ``TOPIC=PATH?key=...`` stand for.

    Raises:
        InvalidArgumentError: One cannot be read, or does not say of which kind its files are.
    """
    found: dict[str, LocalSource] = {}
    for topic, text in _pairs("--source", options):
        path, mark, query = text.rpartition("?")
        path, query = (path, query) if mark and "=" in query else (text, "")
        fields = dict(parse_qsl(query, keep_blank_values=True))
        unknown = fields.keys() - set(_FIELDS)
        if unknown:
            raise InvalidArgumentError(
                f"--source {topic}={text!r} has {min(unknown)!r}; known are {', '.join(_FIELDS)}"
            )
        kind = next((_KINDS[each] for each in _KINDS if path.endswith(each)), None)
        if kind is None:
            raise InvalidArgumentError(
                f"--source {topic}={path!r} does not say what its files are; let it end in "
                f"{', '.join(_KINDS)}, such as {path.rstrip('/')}/*.jsonl"
            )
        found[topic] = kind(path, **fields)  # type: ignore[arg-type]  # both check what they get
    return found


def parse_sinks(options: Iterable[str] | None) -> dict[str, LocalSink]:
    """Return the sinks that ``TOPIC=DIR`` stand for.

    Raises:
        InvalidArgumentError: One cannot be read.
    """
    return {topic: ParquetSink(path) for topic, path in _pairs("--sink", options)}


def parse_retention(options: Iterable[str] | None) -> dict[str, Retention]:
    """Return the retentions that ``TOPIC=AMOUNT`` stand for; one topic may have both.

    Raises:
        InvalidArgumentError: One cannot be read.
    """
    found: dict[str, dict[str, int]] = {}
    for topic, text in _pairs("--retain", options):
        amount = _AMOUNT.fullmatch(text)
        if amount is None:
            raise InvalidArgumentError(
                f"--retain {topic}={text!r} is no amount; expected one such as 12h, 7d or 500MB"
            )
        limit = "max_bytes" if amount[2].endswith("B") else "after_ms"
        found.setdefault(topic, {})[limit] = int(amount[1]) * _UNITS[amount[2]]
    return {topic: Retention(**limits) for topic, limits in found.items()}


def _pairs(option: str, texts: Iterable[str] | None) -> Iterator[tuple[str, str]]:
    for text in texts or ():
        topic, equals, rest = text.partition("=")
        if not (topic and equals and rest):
            raise InvalidArgumentError(f"{option} takes TOPIC=..., got {text!r}")
        yield topic, rest
