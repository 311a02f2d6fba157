"""The OpenAPI description of the face, with the stores that are served."""

from importlib.metadata import version
from typing import Any

from statestores.serving.http.answer_schemas import SCHEMAS, answer
from statestores.serving.http.prometheus import CONTENT_TYPE
from statestores.serving.http.rendering import ARROW, JSON
from statestores.serving.limits import Limits
from statestores.serving.served import Served

MAX_WAIT_MS = 25_000
"""How long a request for changes may wait for the first one."""

_TIME = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": 253_402_300_799_999},
        {"type": "string", "format": "date-time"},
    ],
    "description": "Milliseconds since 1970, or ISO 8601, as 2013-07-04T12:00:00Z.",
}
_KEY = {"type": "string", "description": "As text, by the store's serde; or its bytes as hex:..."}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": (1 << 63) - 1}

_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "key": (_KEY, "A key."),
    "first": (_KEY, "The first key."),
    "last": (_KEY, "The last key, inclusive."),
    "prefix": ({"type": "string"}, "What the bytes of keys begin with: text, or hex:..."),
    "as_of": (_TIME, "Versioned stores: the versions valid then."),
    "start_ms": (_TIME, "The start of a window or session."),
    "end_ms": (_TIME, "The end of a session."),
    "first_ms": (_TIME, "The first time."),
    "last_ms": (_TIME, "The last time, inclusive."),
    "by_end": ({"type": "boolean"}, "Session stores: the times are of the ends alone."),
    "reverse": ({"type": "boolean"}, "Whether to begin with the last row."),
    "limit": ({"type": "integer", "minimum": 1}, "How many rows to give at most."),
    "partition": (_NUMBER, "The only partition to read."),
    "stale": ({"type": "boolean"}, "Whether copies may answer, however far behind."),
    "max_lag": (_NUMBER, "How many changes what is read may be behind."),
    "at_least": (
        {"type": "string", "pattern": r'^\[(\["[a-z]+",[0-9],[0-9]{1,9}\])?\]$'},
        "A position to have reached: [[topic, partition, offset], ...].",
    ),
    "from": (_NUMBER, "The offset of the first change."),
    "last_changes": (_NUMBER, "How many changes to begin before the end; instead of from."),
    "wait_ms": (
        {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_MS},
        "How long to wait for the first change.",
    ),
}
_SHARED = ("partition", "stale", "max_lag", "at_least")

_READS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "value": ("The value of one key", "Value", ("key", "as_of", "start_ms", "end_ms", *_SHARED)),
    "rows": (
        "A range of keys",
        "Rows",
        (
            *("first", "last", "prefix", "as_of", "first_ms", "last_ms"),
            *("by_end", "reverse", "limit"),
            *_SHARED,
        ),
    ),
    "history": (
        "The versions, windows or sessions of a key, or the versions of a range of keys",
        "Rows",
        ("key", "first", "last", "first_ms", "last_ms", "reverse", "limit", *_SHARED),
    ),
    "changes": (
        "The changes of a partition",
        "Changes",
        ("partition", "from", "last_changes", "limit", "wait_ms"),
    ),
    "about": ("Positions, stream time, entries", "About", _SHARED),
    "where": ("Where a key or a partition is: active and copies", "Where", ("key", "partition")),
}

_ARROW_TOO = ("Value", "Rows")

_PLAIN = {
    "/health": ("Whether the process answers", "Health"),
    "/ready": ("Whether everything here can be read: 200, or 503", "Ready"),
    "/v1/instance": ("What this instance has", "Instance"),
    "/v1/metadata": ("What all known instances have", "Instances"),
    "/v1/topology": ("The picture of the topology, as Mermaid text", "Topology"),
    "/v1/stores": ("The stores and where their partitions are", "Stores"),
}


def description(served: Served, limits: Limits) -> dict[str, Any]:
    """Return the description of what answers here, within *limits*."""
    store = {
        "name": "store",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "enum": list(served.store_names())},
    }
    paths: dict[str, Any] = {
        path: {"get": _operation(words, schema, [])} for path, (words, schema) in _PLAIN.items()
    }
    paths["/ready"]["get"]["responses"]["503"] = answer("Something is restored", "Ready")
    words = "Metrics in Prometheus' text format"
    metrics = _operation(words, "Health", [])
    metrics["responses"]["200"] = {"description": words, "content": {CONTENT_TYPE: {}}}
    paths["/metrics"] = {"get": metrics}
    one = _operation("One store", "Store", [store])
    paths["/v1/stores/{store}"] = {"get": one}
    for read, (words, schema, parameters) in _READS.items():
        asked = [_parameter(name, limits, is_required=read == "value") for name in parameters]
        paths[f"/v1/stores/{{store}}/{read}"] = {"get": _operation(words, schema, [store, *asked])}
    shared = [_parameter(name, limits) for name in _SHARED]
    batch = _operation("The values of many keys", "Rows", [store, *shared])
    batch["requestBody"] = {"required": True, "content": {JSON: {"schema": _batch(limits)}}}
    paths["/v1/stores/{store}/values"] = {"post": batch}
    return {
        "openapi": "3.1.0",
        "info": {"title": "statestores", "version": version("statestores")},
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _batch(limits: Limits) -> dict[str, Any]:
    keys = {"type": "array", "items": _KEY, "maxItems": limits.max_rows}
    return {
        "type": "object",
        "required": ["keys"],
        "properties": {"keys": keys, "as_of": _TIME},
        "additionalProperties": False,
    }


def _parameter(name: str, limits: Limits, *, is_required: bool = False) -> dict[str, Any]:
    schema, words = _PARAMETERS[name]
    if name == "limit":
        schema = {**schema, "maximum": limits.max_rows}
    return {
        "name": name,
        "in": "query",
        "description": words,
        "required": is_required and name == "key",
        "schema": schema,
    }


def _operation(words: str, schema: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    good = answer(words, schema)
    if schema in _ARROW_TOO:
        good["content"][ARROW] = {}
    return {
        "summary": words,
        "parameters": parameters,
        "responses": {
            "200": good,
            "4XX": answer("The question cannot be answered", "Error"),
            "501": answer("The store cannot answer such a question", "Error"),
            "503": answer("Try again, here or elsewhere", "Error"),
        },
    }
