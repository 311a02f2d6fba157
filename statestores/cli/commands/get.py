"""The command `get`: the value of one key, now or as of a time."""

from typing import Annotated, Any

import typer

from statestores.arrow.keys.key_selection import KeySelection
from statestores.cli.arguments import (
    AsOfOption,
    BackendOption,
    JsonOption,
    KeyArgument,
    KeyHexOption,
    PartitionOption,
    PathArgument,
    RawOption,
    StoreOption,
)
from statestores.cli.columns import Column
from statestores.cli.decoding import Decoder
from statestores.cli.output import Output
from statestores.cli.store_views import find_key
from statestores.cli.time_columns import TIME_COLUMNS, times_of
from statestores.errors import InvalidArgumentError
from statestores.reading.records import Record
from statestores.reading.views import View
from statestores.spi.session_specification import Session
from statestores.spi.specification import StoreSpecification, Versioned
from statestores.spi.window_specification import Window
from statestores.text.times import format_time, parse_moment
from statestores.text.values import as_json, as_text

_VALUE = Column("value", "value")

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
    as_of_ms = None if as_of is None else parse_moment(as_of)
    start_ms = None if start is None else parse_moment(start)
    views, encoded = find_key(path, key, store, backend_option, key_hex=key_hex)
    specification = views.specification
    in_rows = isinstance(specification, Window | Session)
    if start is not None and not in_rows:
        raise InvalidArgumentError(
            f"{specification.name!r} is a {specification.kind} store, which has no windows or "
            "sessions; leave --start out"
        )
    exactly = KeySelection(first=encoded, last=encoded)

    def read(view: View) -> list[Record]:
        records = view.records(exactly, as_of_ms=as_of_ms, limit=0 if in_rows else 1)
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
