"""The command `scan`: keys and values in the order of the keys."""

from heapq import merge
from itertools import repeat
from typing import Annotated

import typer

from statestores.cli.arguments import (
    DEFAULT_LIMIT,
    AsOfOption,
    BackendOption,
    CsvOption,
    JsonOption,
    LimitOption,
    PathArgument,
    RawOption,
    StoreOption,
    parse_backend_options,
)
from statestores.cli.keys import select_keys
from statestores.cli.output import Output
from statestores.cli.row_output import print_records
from statestores.cli.store_views import views_of
from statestores.text.times import parse_moment


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
    csv: CsvOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Print keys and values in the order of the keys' bytes, all partitions merged.

    Example: statestores scan state/ --prefix N1 --limit 5
    """
    output = Output(json=json, csv=csv)
    as_of_ms = None if as_of is None else parse_moment(as_of)
    views = views_of(path, store, parse_backend_options(backend_option))
    with views.open_all() as open_views:
        specification = open_views[0].specification
        keys = select_keys(specification, first=first, last=last, prefix=prefix)
        ask = limit + 1 if limit else 0
        streams = [
            zip(
                view.records(keys, as_of_ms=as_of_ms, reverse=reverse, limit=ask),
                repeat(views.partition_number(index)),
                strict=False,
            )
            for index, view in enumerate(open_views)
        ]
        records = merge(*streams, key=lambda pair: pair[0].key, reverse=reverse)
        count = print_records(output, specification, records, limit, raw=raw)
    if not count:
        output.remark("no keys")
