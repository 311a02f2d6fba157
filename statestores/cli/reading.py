"""The commands `get`, `scan` and `history`: what a store holds, now or as of a time."""

from collections.abc import Iterator
from heapq import merge
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
    PathArgument,
    RawOption,
    StoreOption,
    parse_backend_options,
)
from statestores.cli.decoding import Decoder
from statestores.cli.keys import parse_key, select_keys
from statestores.cli.locations import locate
from statestores.cli.output import Column, Output, time_column
from statestores.cli.store_views import StoreViews, views_at
from statestores.cli.times import format_time, parse_time
from statestores.cli.values import as_json, as_text
from statestores.cli.views import Record
from statestores.spi.specification import StoreSpecification, Versioned

_KEY = Column("key", "key")
_VALUE = Column("value", "value")
_VALIDITY = (
    time_column("valid_from_ms", "valid from"),
    time_column("valid_to_ms", "valid until"),
)
_PARTITION = Column("partition", "partition")

_NOT_FOUND = 1


def get(
    path: PathArgument,
    key: KeyArgument,
    *,
    as_of: AsOfOption = None,
    store: StoreOption = None,
    key_hex: KeyHexOption = False,
    raw: RawOption = False,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Print the value of one key; exit code 1 when there is none.

    Example: statestores get state/ N14228 --as-of 2013-07-04T12:00:00Z
    """
    output = Output(json=json)
    as_of_ms = None if as_of is None else parse_time(as_of)
    views, index, encoded = _find(path, key, store, backend_option, key_hex=key_hex)
    with views.open(index) as view:
        found = next(view.records(_exactly(encoded), as_of_ms=as_of_ms, limit=1), None)
        decoder = Decoder(view.specification, raw=raw)
        versioned = isinstance(view.specification, Versioned)
    value = None if found is None else decoder.value(found.value)
    if json:
        document: dict[str, object] = {
            "key": as_json(decoder.key(encoded)),
            "found": found is not None,
            "value": as_json(value),
            "partition": views.partition_number(index),
        }
        if versioned:
            document["valid_from_ms"] = None if found is None else found.valid_from_ms
            document["valid_to_ms"] = None if found is None else found.valid_to_ms
        output.document(document)
    elif found is None:
        at = "" if as_of_ms is None else f" as of {format_time(as_of_ms)}"
        output.remark(f"there is no value of {as_text(decoder.key(encoded))!r}{at}")
    else:
        output.line(as_text(value))
        if found.valid_from_ms is not None:
            until = "now" if found.valid_to_ms is None else format_time(found.valid_to_ms)
            output.remark(f"valid from {format_time(found.valid_from_ms)} until {until}")
    if found is None:
        raise typer.Exit(_NOT_FOUND)


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
    views, index, encoded = _find(path, key, store, backend_option, key_hex=key_hex)
    with views.open(index) as view:
        versions = view.history(encoded, first_ms, last_ms, reverse=reverse)
        numbered = _numbered(versions, views.partition_number(index))
        count = _print_records(output, view.specification, numbered, limit, raw=raw)
    if not count:
        output.remark("no versions")
        raise typer.Exit(_NOT_FOUND)


def _find(
    path: str, key: str, store: str | None, backend_option: list[str] | None, *, key_hex: bool
) -> tuple[StoreViews, int, bytes]:
    """Return the store at *path*, the index of the partition of *key*, and the key's bytes."""
    views = views_at(locate(path), store, parse_backend_options(backend_option))
    encoded = parse_key(key, views.specification, is_hex=key_hex)
    return views, views.index_of(encoded), encoded


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
    if isinstance(specification, Versioned):
        rows: Iterator[tuple[Any, ...]] = (
            (
                decoder.key(record.key),
                decoder.value(record.value),
                record.valid_from_ms,
                record.valid_to_ms,
                partition,
            )
            for record, partition in records
        )
        return output.rows((_KEY, _VALUE, *_VALIDITY, _PARTITION), rows, limit=limit)
    rows = (
        (decoder.key(record.key), decoder.value(record.value), partition)
        for record, partition in records
    )
    return output.rows((_KEY, _VALUE, _PARTITION), rows, limit=limit)
