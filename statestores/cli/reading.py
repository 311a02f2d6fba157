"""The commands `get`, `scan` and `history`: what a store holds, now or as of a time."""

from collections.abc import Iterator
from heapq import merge
from itertools import chain
from typing import Annotated, Any

import typer

from statestores.arrow.key_selection import KeySelection
from statestores.cli.arguments import (
    DEFAULT_LIMIT,
    AsOfOption,
    BackendOption,
    JsonOption,
    KeyArgument,
    KeyHexOption,
    LimitOption,
    PartitionOption,
    PathArgument,
    RawOption,
    StoreOption,
    parse_backend_options,
)
from statestores.cli.decoding import Decoder
from statestores.cli.keys import parse_key, select_keys
from statestores.cli.output import Column, Output
from statestores.cli.store_views import StoreViews, views_at
from statestores.cli.time_columns import TIME_COLUMNS, times_of
from statestores.errors import InvalidArgumentError
from statestores.reading.locations import locate
from statestores.reading.records import Record
from statestores.reading.views import View
from statestores.spi.session_specification import Session
from statestores.spi.specification import StoreSpecification, Versioned
from statestores.spi.window_specification import Window
from statestores.text.times import format_time, parse_time
from statestores.text.values import as_json, as_text

_KEY = Column("key", "key")
_VALUE = Column("value", "value")
_PARTITION = Column("partition", "partition")

_NOT_FOUND = 1


def get(
    path: PathArgument,
    key: KeyArgument,
    *,
    as_of: AsOfOption = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Of a window or session store: the one that starts so."),
    ] = None,
    store: StoreOption = None,
    partition: PartitionOption = None,
    key_hex: KeyHexOption = False,
    raw: RawOption = False,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Print the value of one key, or all of its windows or sessions; exit code 1 without any.

    Example: statestores get state/ N14228 --as-of 2013-07-04T12:00:00Z
    """
    output = Output(json=json)
    as_of_ms = None if as_of is None else parse_time(as_of)
    start_ms = None if start is None else parse_time(start)
    views, encoded = _find(path, key, store, backend_option, key_hex=key_hex)
    specification = views.specification
    in_rows = isinstance(specification, Window | Session)
    if start is not None and not in_rows:
        raise InvalidArgumentError(
            f"{specification.name!r} is a {specification.kind} store, which has no windows or "
            "sessions; leave --start out"
        )

    def read(view: View) -> list[Record]:
        records = view.records(_exactly(encoded), as_of_ms=as_of_ms, limit=0 if in_rows else 1)
        return [record for record in records if start_ms in (None, record.start_ms)]

    index = views.index_of(encoded, partition)
    with views.open(index) as view:
        found = read(view)
    if not found and partition is None:
        views.check_not_elsewhere(encoded, index, lambda view: bool(read(view)))
    number = views.partition_number(index)
    decoder = Decoder(specification, raw=raw)
    shown_key = decoder.key(encoded)
    if not found and not json:
        at = "" if as_of_ms is None else f" as of {format_time(as_of_ms)}"
        at = at if start_ms is None else f" that starts at {format_time(start_ms)}"
        output.remark(f"there is no value of {as_text(shown_key)!r}{at}")
    elif in_rows:
        _print_spans(output, specification, found, decoder, shown_key, number)
    else:
        _print_value(output, specification, next(iter(found), None), decoder, shown_key, number)
    if not found:
        raise typer.Exit(_NOT_FOUND)


def _print_value(
    output: Output,
    specification: StoreSpecification[Any, Any],
    found: Record | None,
    decoder: Decoder,
    key: object,
    partition: int | None,
) -> None:
    """Print the one value of a key; in JSON also that there is none."""
    value = None if found is None else decoder.value(found.value)
    columns = TIME_COLUMNS.get(specification.kind, ())
    if output.json:
        times = (None,) * len(columns) if found is None else times_of(found, specification)
        output.document(
            {
                "key": as_json(key),
                "found": found is not None,
                "value": as_json(value),
                "partition": partition,
                **{column.name: time for column, time in zip(columns, times, strict=True)},
            }
        )
    elif found is not None:
        output.line(as_text(value))
        if isinstance(specification, Versioned) and found.start_ms is not None:
            until = "now" if found.end_ms is None else format_time(found.end_ms)
            output.remark(f"valid from {format_time(found.start_ms)} until {until}")
        elif found.start_ms is not None:
            output.remark(f"timestamp {format_time(found.start_ms)}")


def _print_spans(
    output: Output,
    specification: StoreSpecification[Any, Any],
    found: list[Record],
    decoder: Decoder,
    key: object,
    partition: int | None,
) -> None:
    """Print the windows or sessions of a key, in their order."""
    columns = (*TIME_COLUMNS[specification.kind], _VALUE)
    rows = [(record.start_ms, record.end_ms, decoder.value(record.value)) for record in found]
    if not output.json:
        output.rows(columns, rows)
        return
    output.document(
        {
            "key": as_json(key),
            "found": bool(found),
            f"{specification.kind}s": [
                {column.name: as_json(cell) for column, cell in zip(columns, row, strict=True)}
                for row in rows
            ],
            "partition": partition,
        }
    )


def scan(
    path: PathArgument,
    *,
    first: Annotated[
        str | None, typer.Option("--from", metavar="KEY", help="From this key on, inclusive.")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="KEY", help="Up to this key, inclusive.")
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="Keys whose bytes begin so: text, or hex:..."),
    ] = None,
    as_of: AsOfOption = None,
    limit: LimitOption = DEFAULT_LIMIT,
    reverse: Annotated[bool, typer.Option("--reverse", help="From the last key down.")] = False,
    store: StoreOption = None,
    raw: RawOption = False,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Print keys and values in the order of the keys' bytes, all partitions merged.

    Example: statestores scan state/ --prefix N1 --limit 5
    """
    output = Output(json=json)
    as_of_ms = None if as_of is None else parse_time(as_of)
    views = views_at(locate(path), store, parse_backend_options(backend_option))
    with views.open_all() as open_views:
        specification = open_views[0].specification
        keys = select_keys(specification, first=first, last=last, prefix=prefix)
        ask = limit + 1 if limit else 0
        streams = [
            _numbered(
                view.records(keys, as_of_ms=as_of_ms, reverse=reverse, limit=ask),
                views.partition_number(index),
            )
            for index, view in enumerate(open_views)
        ]
        records = merge(*streams, key=lambda pair: pair[0].key, reverse=reverse)
        count = _print_records(output, specification, records, limit, raw=raw)
    if not count:
        output.remark("no keys")


def history(
    path: PathArgument,
    key: KeyArgument,
    *,
    first: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Valid at this time or later.")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Valid at this time or earlier.")
    ] = None,
    limit: LimitOption = DEFAULT_LIMIT,
    reverse: Annotated[bool, typer.Option("--reverse", help="The newest first.")] = False,
    store: StoreOption = None,
    partition: PartitionOption = None,
    key_hex: KeyHexOption = False,
    raw: RawOption = False,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Print the versions of one key of a versioned store, oldest first; deletions are gaps.

    Example: statestores history state/ N14228 --from 2013-07-01 --to 2013-07-31
    """
    output = Output(json=json)
    first_ms = None if first is None else parse_time(first)
    last_ms = None if last is None else parse_time(last)
    views, encoded = _find(path, key, store, backend_option, key_hex=key_hex)

    def read(view: View) -> Iterator[Record]:
        return view.history(encoded, first_ms, last_ms, reverse=reverse)

    index = views.index_of(encoded, partition)
    with views.open(index) as view:
        found = read(view)
        first_one = next(found, None)
        if first_one is None and partition is None:
            views.check_not_elsewhere(encoded, index, lambda view: any(True for _ in read(view)))
        versions = iter(()) if first_one is None else chain((first_one,), found)
        numbered = _numbered(versions, views.partition_number(index))
        count = _print_records(output, view.specification, numbered, limit, raw=raw)
    if not count:
        output.remark("no versions")
        raise typer.Exit(_NOT_FOUND)


def _find(
    path: str, key: str, store: str | None, backend_option: list[str] | None, *, key_hex: bool
) -> tuple[StoreViews, bytes]:
    """Return the store at *path*, and the bytes of *key*."""
    views = views_at(locate(path), store, parse_backend_options(backend_option))
    return views, parse_key(key, views.specification, is_hex=key_hex)


def _exactly(key: bytes) -> KeySelection:
    return KeySelection(first=key, last=key)


def _numbered(
    records: Iterator[Record], partition: int | None
) -> Iterator[tuple[Record, int | None]]:
    return ((record, partition) for record in records)


def _print_records(
    output: Output,
    specification: StoreSpecification[Any, Any],
    records: Iterator[tuple[Record, int | None]],
    limit: int,
    *,
    raw: bool,
) -> int:
    """Print *records*, decoded, and return how many there were."""
    decoder = Decoder(specification, raw=raw)
    times = TIME_COLUMNS.get(specification.kind, ())
    rows = (
        (
            decoder.key(record.key),
            decoder.value(record.value),
            *times_of(record, specification),
            partition,
        )
        for record, partition in records
    )
    return output.rows((_KEY, _VALUE, *times, _PARTITION), rows, limit=limit)
