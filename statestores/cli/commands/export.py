"""The command `export`: a store into one Arrow or Parquet file."""

from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from statestores.arrow.files.exporting import write_rows_file
from statestores.arrow.files.format import FileFormat
from statestores.arrow.files.row_source import with_origin
from statestores.arrow.schemas import row_schema
from statestores.arrow.time_travel import check_has_history
from statestores.arrow.typed_columns import decode_rows, typed_schema
from statestores.cli.arguments import (
    AsOfOption,
    BackendOption,
    JsonOption,
    PathArgument,
    RawOption,
    StoreOption,
    parse_backend_options,
)
from statestores.cli.output import Output
from statestores.cli.store_views import views_of
from statestores.errors import InvalidArgumentError
from statestores.reading.views import Content
from statestores.text.times import parse_moment


class Format(StrEnum):
    """The formats of exported files."""

    ARROW = "arrow"
    PARQUET = "parquet"


def export(
    path: PathArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist.")
    ],
    *,
    file_format: Annotated[
        Format | None,
        typer.Option("--format", help="By default what the file's name ends in."),
    ] = None,
    as_of: AsOfOption = None,
    history: Annotated[
        bool,
        typer.Option(
            "--history/--latest",
            help="Of a versioned store, every version and deletion, or the latest values only.",
        ),
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    store: StoreOption = None,
    raw: RawOption = False,
    json: JsonOption = False,
    backend_option: BackendOption = None,
) -> None:
    """Write a store into an Arrow or Parquet file: everything, or what it holds as of a time.

    Everything is what `import` rebuilds the store from. The file appears whole or not at all; its
    rows are in key order within each partition, and the partitions follow each other.

    Example: statestores export state/ planes.parquet --as-of 2013-07-04
    """
    output = Output(json=json)
    as_of_ms = None if as_of is None else parse_moment(as_of)
    if file.exists() and not force:
        raise InvalidArgumentError(f"{str(file)!r} exists; --force replaces it")
    views = views_of(path, store, parse_backend_options(backend_option))
    with ExitStack() as opened:
        open_views = opened.enter_context(views.open_all())
        specification = open_views[0].specification
        if as_of_ms is not None:
            check_has_history(specification)
        contents = [opened.enter_context(view.content()) for view in open_views]
        everything = history and as_of_ms is None
        batches = _rows(contents, as_of_ms, raw=raw, everything=everything)
        schema = with_origin(
            row_schema(specification.kind) if raw else typed_schema(specification),
            specification.describe(),
            stream_time_ms=contents[0].stream_time_ms if len(contents) == 1 else None,
            typed=not raw,
        )
        chosen: FileFormat | None = None if file_format is None else _FORMATS[file_format]
        with output.progress("exporting") as progress:
            rows = write_rows_file(file, schema, batches, file_format=chosen, progress=progress)
    size = file.stat().st_size
    if json:
        output.document({"file": str(file), "rows": rows, "bytes": size})
    else:
        output.line(f"{rows:,} rows, {size:,} bytes: {file}")


_FORMATS: dict[Format, FileFormat] = {Format.ARROW: "arrow", Format.PARQUET: "parquet"}


def _rows(
    contents: list[Content], as_of_ms: int | None, *, raw: bool, everything: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of *contents* one after the other."""
    for content in contents:
        for batch in content.batches if everything else content.shown(as_of_ms):
            if batch.num_rows:
                yield batch if raw else decode_rows(batch, content.specification)
