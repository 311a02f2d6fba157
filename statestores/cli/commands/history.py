"""The command `history`: the versions of one key."""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Annotated

import typer

from statestores.cli.arguments import (
    DEFAULT_LIMIT,
    BackendOption,
    CsvOption,
    JsonOption,
    KeyArgument,
    KeyHexOption,
    LimitOption,
    PartitionOption,
    PathArgument,
    RawOption,
    StoreOption,
)
from statestores.cli.output import Output
from statestores.cli.row_output import print_records
from statestores.cli.store_views import find_key
from statestores.errors import InvalidArgumentError
from statestores.reading.records import Record
from statestores.reading.views import View
from statestores.text.times import parse_moment

_NOT_FOUND = 1


def history(
    path: PathArgument,
    key: KeyArgument,
    key_in_store: Annotated[
        str | None,
        typer.Argument(metavar="[KEY]", help="With three arguments the second names the store."),
    ] = None,
    *,
    first: Annotated[
        str | None,
        typer.Option("--from", "--since", metavar="TIME", help="Valid at this time or later."),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option("--to", "--until", metavar="TIME", help="Valid at this time or earlier."),
    ] = None,
    limit: LimitOption = DEFAULT_LIMIT,
    reverse: Annotated[bool, typer.Option("--reverse", help="The newest first.")] = False,
    store: StoreOption = None,
    partition: PartitionOption = None,
    key_hex: KeyHexOption = False,
    raw: RawOption = False,
    json: JsonOption = False,
    csv: CsvOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Print the versions of one key of a versioned store, oldest first; deletions are gaps.

    `history ROOT STORE KEY` is `history ROOT/STORE KEY`. What other kinds of stores had before,
    their changelogs say: `changelog PATH --key KEY`.

    Example: statestores history state/ N14228 --from 2013-07-01 --to 2013-07-31
    """
    output = Output(json=json, csv=csv)
    if key_in_store is not None:
        if store is not None:
            raise InvalidArgumentError(
                f"the store is named twice, {key!r} and --store {store!r}; leave one out"
            )
        store, key = key, key_in_store
    first_ms = None if first is None else parse_moment(first)
    last_ms = None if last is None else parse_moment(last)
    views, encoded = find_key(path, key, store, backend_option, key_hex=key_hex)

    def read(view: View) -> Iterator[Record]:
        return view.history(encoded, first_ms, last_ms, reverse=reverse)

    index = views.index_of(encoded, partition)
    with views.open(index) as view:
        found = read(view)
        first_one = next(found, None)
        if first_one is None and partition is None:
            views.check_not_elsewhere(encoded, index, lambda view: any(True for _ in read(view)))
        versions = iter(()) if first_one is None else chain((first_one,), found)
        numbered = zip(versions, repeat(views.partition_number(index)), strict=False)
        count = print_records(output, view.specification, numbered, limit, raw=raw)
    if not count:
        output.remark("no versions")
        raise typer.Exit(_NOT_FOUND)
