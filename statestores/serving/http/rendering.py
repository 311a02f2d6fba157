"""Rows as JSON for people and programs, and as Arrow for whoever has columns."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from statestores.errors import SerializationError
from statestores.reading.partition_columns import decoded, serdes_of, with_types
from statestores.serdes.raw_serde import serde_or_raw
from statestores.serving.answers import batch_of, names_of
from statestores.serving.limits import Deadline
from statestores.serving.reads import Row, wire_schema
from statestores.spi.specification import StoreSpecification
from statestores.text.values import as_json

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
MORE = "x-more-rows"
NEXT = "x-next-first"


class Decoder:
    """Decodes keys and values of one store. The serdes are the store's, never the request's."""

    def __init__(self, specification: StoreSpecification[Any, Any]) -> None:
        """Decode for a store of *specification*."""
        self._key = serde_or_raw(specification.key)
        self._value = serde_or_raw(specification.value)

    def key(self, data: bytes) -> Any:
        """Return a key as JSON has it."""
        return as_json(self._key.decode(data))

    def value(self, data: bytes | None) -> Any:
        """Return a value as JSON has it; one that is not the serde's is an error."""
        return None if data is None else as_json(self._value.decode(data))


def json_response(document: Any, status: int = 200, **headers: str) -> Response:
    """Return *document* as JSON; what is no JSON has become text before."""
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(body.encode("utf-8", "backslashreplace"), status, headers, media_type=JSON)


def rows_response(
    specification: StoreSpecification[Any, Any],
    rows: list[Row],
    *,
    wants_arrow: bool,
    has_more: bool,
    next_first: bytes | None,
    also: Mapping[str, Any] | None = None,
) -> Response:
    """Return *rows* as what the caller wants, with where to go on.

    Raises:
        SerializationError: A key or value is not the serde's.
    """
    following = None if next_first is None else f"hex:{next_first.hex()}"
    if wants_arrow:
        schema = wire_schema(specification.kind)
        serdes = serdes_of(specification)
        typed = decoded(batch_of(schema, rows), with_types(schema, serdes), serdes)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, typed.schema) as writer:
            writer.write_batch(typed)
        headers = {MORE: "true" if has_more else "false"}
        if following is not None:
            headers[NEXT] = following
        return Response(sink.getvalue().to_pybytes(), headers=headers, media_type=ARROW)
    decoder = Decoder(specification)
    names = names_of(specification)[2:]
    document = {
        "rows": [
            {
                "key": decoder.key(key),
                "value": decoder.value(value),
                **dict(zip(names, times, strict=True)),
            }
            for key, value, *times in rows
        ],
        "more": has_more,
        "next": following,
    }
    return json_response({**document, **(also or {})})


def change_documents(
    specification: StoreSpecification[Any, Any],
    batches: Iterator[pa.RecordBatch],
    *,
    limit: int,
    max_bytes: int,
    deadline: Deadline,
) -> tuple[list[dict[str, Any]], bool]:
    """Return changes as JSON has them, and whether they are all of *batches*.

    Not all, where *limit* of them, *max_bytes* or the time ends the answer, which has one at least:
    a feed goes on where it ended. A value that is not the serde's is shown as what it is, since a
    feed goes on behind it, too.
    """
    decoder = Decoder(specification)
    found: list[dict[str, Any]] = []
    size = 0
    for batch in batches:
        for at in range(batch.num_rows):
            if found and (len(found) >= limit or size >= max_bytes or deadline.is_over):
                return found, False
            [row] = batch.slice(at, 1).to_pylist()
            for name, decode in (("key", decoder.key), ("value", decoder.value)):
                if row.get(name) is not None:
                    size += len(row[name])
                    row[name] = _shown(decode, row[name])
            found.append(row)
    return found, True


def _shown(decode: Any, data: bytes) -> Any:
    try:
        return decode(data)
    except SerializationError:
        return {"hex": data.hex()}
