"""The command `changelog`: what was written, in the order in which it was."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from statestores.changelog import change_schema
from statestores.changelog.rows import number_columns
from statestores.cli.arguments import (
    DEFAULT_LIMIT,
    CsvOption,
    JsonOption,
    RawOption,
    StoreOption,
)
from statestores.cli.change_sources import (
    Change,
    ChangeSource,
    follow_changes,
    last_changes,
    object_source,
    read_changes,
    sources_at,
)
from statestores.cli.columns import Column, time_column
from statestores.cli.decoding import Decoder
from statestores.cli.locations import locate_store
from statestores.cli.object_roots import object_partitions
from statestores.cli.output import Output
from statestores.errors import InvalidArgumentError
from statestores.reading.key_text import HEX, TEXT, parse_hex, parse_key
from statestores.stopping import StopRequest, stopped_by_signals
from statestores.storage import is_storage_url
from statestores.text.times import parse_moment

_OFFSET = Column("offset", "offset")
_OPERATION = Column("operation", "operation")
_KEY = Column("key", "key")
_VALUE = Column("value", "value")
_PARTITION = Column("partition", "partition")


def changelog(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A state root, one of its stores, a partition, or a changelog."
        ),
    ],
    *,
    from_offset: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="From this offset on; by default the first one that is there."
        ),
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option(metavar="N", help="Up to, and without, this offset.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Written then or later, by the writer's clock: 2h, ..."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Written before this time.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Changes of this key, and clears, which are of every key."
        ),
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The last N of them, of each partition."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            "-f",
            help="Go on with what is written from now on, until Control-C or --limit.",
        ),
    ] = False,
    partition: Annotated[int | None, typer.Option(metavar="N", help="This partition only.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1 << 62,
            metavar="N",
            help=f"At most so many rows; 0 for all. By default {DEFAULT_LIMIT}, and all of "
            "--tail and --follow.",
        ),
    ] = None,
    store: StoreOption = None,
    raw: RawOption = False,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Print the changes of a changelog, in its order; of several partitions one after the other.

    PATH may be the URL of a state root in an object store.

    Example: statestores changelog state/planes/0 --key N14228 --tail 5 --follow
    """
    output = Output(json=json, csv=csv)
    if is_storage_url(path):
        sources = [object_source(each) for each in object_partitions(path, store, partition)]
    else:
        sources = sources_at(locate_store(path, store), store, partition)
    if len(sources) > 1 and (from_offset is not None or to_offset is not None):
        raise InvalidArgumentError(
            "an offset is one of a single partition; name it with --partition"
        )
    if follow and (to_offset is not None or until is not None):
        raise InvalidArgumentError("--follow has no end; leave --to-offset and --until out")
    ranges = _ranges(sources, (from_offset, to_offset), (since, until))
    encoded = None if key is None else _encoded(key, sources[0])
    kind, specification = sources[0].kind, sources[0].specification
    decoder = Decoder(specification, raw=raw)
    numbers = [_number_column(each.name) for each in number_columns(change_schema(kind))]
    columns = [_OFFSET, _OPERATION, *numbers, _KEY, _VALUE, _PARTITION]
    stop = StopRequest()
    changes = _changes(sources, ranges, encoded, tail, stop if follow else None)
    shown = limit
    if shown is None:
        shown = 0 if follow or tail is not None else DEFAULT_LIMIT
    rows = (_row(change, decoder) for change in changes)
    if follow:
        with stopped_by_signals(stop.set):
            output.live_rows(columns, rows, limit=shown)
    elif not output.rows(columns, rows, limit=shown):
        output.remark("no changes")


def _ranges(
    sources: list[ChangeSource],
    offsets: tuple[int | None, int | None],
    times: tuple[str | None, str | None],
) -> list[tuple[int | None, int | None]]:
    """Return the first offset of each of *sources*, and that before which to end.

    Raises:
        InvalidArgumentError: A bound is given twice, or is no time.
    """
    bounds: list[list[int | None]] = []
    for offset, text in zip(offsets, times, strict=True):
        if offset is not None and text is not None:
            raise InvalidArgumentError("a bound is an offset or a time; leave one out")
        if text is None:
            bounds.append([offset] * len(sources))
        else:
            time_ms = parse_moment(text)
            bounds.append([source.begin(time_ms) for source in sources])
    return list(zip(*bounds, strict=True))


def _changes(
    sources: list[ChangeSource],
    ranges: list[tuple[int | None, int | None]],
    key: bytes | None,
    tail: int | None,
    stop: StopRequest | None,
) -> Iterator[Change]:
    """Yield the changes that are wanted; with *stop*, those that come, until it is made."""
    if stop is not None:  # the ends before the reading: what comes meanwhile is not lost
        ends = [source.end_offset() for source in sources]
        ranges = [(first, end) for (first, _), end in zip(ranges, ends, strict=True)]
    if tail is None:
        for source, (first, last) in zip(sources, ranges, strict=True):
            yield from read_changes(source, first, last, key)
    else:
        for source, (first, last) in zip(sources, ranges, strict=True):
            yield from last_changes(source, first, last, key, tail)
    if stop is not None:
        yield from follow_changes(sources, ends, key, stop)


def _encoded(key: str, source: ChangeSource) -> bytes:
    """Return the bytes of *key*; where no serde is known, it is text, or ``hex:``."""
    if source.specification is not None:
        return parse_key(key, source.specification, is_hex=False)
    if key.startswith(HEX):
        return parse_hex(key.removeprefix(HEX))
    return key.removeprefix(TEXT).encode()


def _number_column(name: str) -> Column:
    """Return how the column *name* of changes is shown."""
    if name == "sequence":
        return Column(name, name)
    return time_column(f"{name}_ms", name.replace("_", " "))


def _row(change: tuple[Any, ...], decoder: Decoder) -> tuple[Any, ...]:
    """Return the cells of *change*; a clear has no key and no numbers."""
    offset, partition, operation, key, value, *numbers = change
    shown_key = None if key is None else decoder.key(key)
    shown_value = None if value is None else decoder.value(value)
    return (offset, operation, *numbers, shown_key, shown_value, partition)
