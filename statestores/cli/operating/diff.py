"""The command `diff`: what two stores, snapshots, or offsets of a store do not share."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from statestores.arrow.schemas import row_schema
from statestores.cli.arguments import (
    DEFAULT_LIMIT,
    BackendOption,
    CsvOption,
    JsonOption,
    LimitOption,
    RawOption,
    StoreOption,
)
from statestores.cli.columns import Column, time_column
from statestores.cli.decoding import Decoder
from statestores.cli.operating.side import Side, side_differences
from statestores.cli.output import Output
from statestores.cli.sentences import complain
from statestores.errors import InvalidArgumentError, StateStoreError
from statestores.verification.content import PLACES, Row

_DIFFERENT = 1
_TROUBLE = 2

_PLAIN = "sequence"
"""The one number of a row that is no time."""


def diff(
    a: Annotated[
        str, typer.Argument(metavar="A", help="A state root, store, partition or snapshot.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The same, or another one.")],
    *,
    offset_a: Annotated[
        int | None,
        typer.Option(min=-1, metavar="N", help="A as it was after this offset of its changelog."),
    ] = None,
    offset_b: Annotated[
        int | None, typer.Option(min=-1, metavar="N", help="The same of B; -1 is the beginning.")
    ] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Count what differs, and print no rows.")
    ] = False,
    limit: LimitOption = DEFAULT_LIMIT,
    store: StoreOption = None,
    raw: RawOption = False,
    json: JsonOption = False,
    csv: CsvOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Print the keys, values and versions that A and B do not share, in key order.

    Bytes are compared, so that nothing is equal that only looks so. Exit code 0 when nothing
    differs, 1 when something does, and 2 when that cannot be told, as of diff. Of each side no more
    than a batch of rows and the changes since the newest snapshot are in memory.

    Example: statestores diff state/planes backup/planes --limit 0
    """
    output = Output(json=json, csv=csv)
    try:
        with ExitStack() as opened:
            sides = [
                opened.enter_context(Side.open(path, store, offset, backend_option))
                for path, offset in ((a, offset_a), (b, offset_b))
            ]
            _check_kinds(a, b, sides)
            found = side_differences(*sides)
            if summary:
                differ = _print_summary(output, found)
            else:
                differ = _print_rows(output, sides, found, limit, raw=raw)
    except (InvalidArgumentError, BrokenPipeError):
        raise
    except (StateStoreError, OSError) as error:  # 1 would say that they differ
        complain(f"statestores: {error}")
        raise typer.Exit(_TROUBLE) from error
    if differ:
        raise typer.Exit(_DIFFERENT)


def _check_kinds(a: str, b: str, sides: list[Side]) -> None:
    """Accept sides of the same kind.

    Raises:
        InvalidArgumentError: They are of two.
    """
    one, other = (side.specification.kind for side in sides)
    if one != other:
        raise InvalidArgumentError(
            f"{a!r} is a {one} store and {b!r} a {other} store: nothing of them can be compared"
        )


def _print_rows(
    output: Output,
    sides: list[Side],
    found: Iterator[tuple[Row | None, Row | None, int | None]],
    limit: int,
    *,
    raw: bool,
) -> bool:
    """Print what differs; return whether anything does."""
    names = [
        name
        for name in row_schema(sides[0].specification.kind).names
        if name not in {"key", "value"}
    ]
    places = [name for name in names if name in PLACES]
    others = [name for name in names if name not in PLACES]
    decoders = [Decoder(side.specification, raw=raw) for side in sides]
    columns = [
        Column("change", "change"),
        Column("key", "key"),
        *(_number_column(name, "") for name in places),
        Column("value_a", "value in A"),
        Column("value_b", "value in B"),
        *(_number_column(name, side) for name in others for side in ("a", "b")),
        Column("partition", "partition"),
    ]

    def cells(here: Row | None, there: Row | None, partition: int | None) -> tuple[Any, ...]:
        one = here or there
        assert one is not None  # noqa: S101  # one side has it
        decoder = decoders[0] if here is not None else decoders[1]
        values = [
            None if row is None else decoder.value(row["value"])
            for row, decoder in zip((here, there), decoders, strict=True)
        ]
        return (
            "only in B" if here is None else "only in A" if there is None else "differs",
            decoder.key(one["key"]),
            *(one[name] for name in places),
            *values,
            *(None if row is None else row[name] for name in others for row in (here, there)),
            partition,
        )

    count = output.rows(columns, (cells(*each) for each in found), limit=limit)
    if not count:
        output.remark("nothing differs")
    return bool(count)


def _print_summary(
    output: Output, found: Iterator[tuple[Row | None, Row | None, int | None]]
) -> bool:
    """Print how much differs; return whether anything does."""
    only_a = only_b = differs = 0
    for here, there, _ in found:
        only_a += there is None
        only_b += here is None
        differs += here is not None and there is not None
    columns = (
        Column("only_a", "only in A"),
        Column("only_b", "only in B"),
        Column("differs", "differs"),
    )
    output.rows(columns, [(only_a, only_b, differs)])
    return bool(only_a or only_b or differs)


def _number_column(name: str, side: str) -> Column:
    """Return how the number *name* of a row is shown, of one *side* if it may differ."""
    title = f"{name.replace('_', ' ')}{f' in {side.upper()}' if side else ''}"
    named = f"{name}_{side}" if side else name
    return Column(named, title) if name == _PLAIN else time_column(f"{named}_ms", title)
