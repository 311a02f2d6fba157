"""Rows to export: a store's committed content or a snapshot, in bytes or in the serdes' types."""

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from statestores.arrow.restore_mark import check_not_half_restored
from statestores.arrow.schemas import row_schema
from statestores.arrow.snapshots.committed_parts import CommittedParts, committed_parts
from statestores.arrow.snapshots.reader import Snapshot
from statestores.arrow.typed_columns import decode_rows, typed_schema
from statestores.serdes.descriptions import specification_from_description
from statestores.spi.specification import StoreSpecification
from statestores.spi.stores.store import StateStore

METADATA_NAME = b"statestores"
"""Under this name an exported schema says what its rows are."""

RowSource: TypeAlias = StateStore | Snapshot
"""What has rows."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are read as they are asked for."""

    schema: pa.Schema
    """Their schema, with the store's specification and stream time as metadata."""

    total: int | None
    """How many there are, when that is known."""

    batches: Iterator[pa.RecordBatch]
    """The rows in order."""


@contextmanager
def open_rows(source: RowSource, *, typed: bool) -> Iterator[Rows]:
    """Give the rows of *source*, frozen now; *typed* decodes keys and values by its serdes.

    Raises:
        StoreMismatchError: The store is half restored.
        InvalidArgumentError: A snapshot's serdes are not known here.
    """
    batches: Generator[pa.RecordBatch, None, None]
    if isinstance(source, Snapshot):
        description = dict(source.manifest.specification)
        schema, total = source.schema, source.rows
        stream_time_ms = source.manifest.stream_time_ms
        specification: StoreSpecification[Any, Any] | None = (
            specification_from_description(description) if typed else None
        )
        batches = source.batches()
    else:
        check_not_half_restored(source.specification, source.committed_offsets())
        description = source.specification.describe()
        schema, total = row_schema(source.specification.kind), None
        specification = source.specification if typed else None
        content = committed_parts(source)
        stream_time_ms = content.stream_time_ms
        batches = _until_closed(content)
    with closing(batches):
        rows: Iterator[pa.RecordBatch] = batches
        if specification is not None:
            schema = typed_schema(specification)
            rows = _decoded(batches, specification)
        described = with_origin(schema, description, stream_time_ms=stream_time_ms, typed=typed)
        yield Rows(described, total, rows)


def with_origin(
    schema: pa.Schema,
    specification: Mapping[str, str | int],
    *,
    stream_time_ms: int | None,
    typed: bool,
) -> pa.Schema:
    """Return *schema* with what an import wants to know about whole content, as metadata."""
    said = {"specification": specification, "stream_time_ms": stream_time_ms, "typed": typed}
    return schema.with_metadata({METADATA_NAME: json.dumps(said, sort_keys=True).encode("ascii")})


def _until_closed(content: CommittedParts) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of *content*, and close it at the end."""
    with closing(content.source):
        for parts in content.parts:
            yield parts.join()


def _decoded(
    batches: Iterator[pa.RecordBatch], specification: StoreSpecification[Any, Any]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield decode_rows(batch, specification)
