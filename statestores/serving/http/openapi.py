"""The OpenAPI description of the face, with the stores that are served."""

from importlib.metadata import version
from typing import Any

from statestores.serving.http.rendering import ARROW, JSON
from statestores.serving.served import Served

_TIME = "Milliseconds since 1970, or ISO 8601."
_KEY = "A key as text, by the store's serde; or its bytes as hex:..."

_PARAMETERS: dict[str, tuple[str, str]] = {
    "key": ("string", _KEY),
    "first": ("string", "The first key. " + _KEY),
    "last": ("string", "The last key, inclusive. " + _KEY),
    "prefix": ("string", "What the bytes of keys begin with: text, or hex:..."),
    "as_of": ("string", "Versioned stores: the versions valid then. " + _TIME),
    "start_ms": ("string", "The start of a window or session. " + _TIME),
    "end_ms": ("string", "The end of a session. " + _TIME),
    "first_ms": ("string", "The first time. " + _TIME),
    "last_ms": ("string", "The last time, inclusive. " + _TIME),
    "by_end": ("boolean", "Session stores: the times are of the ends alone."),
    "reverse": ("boolean", "Whether to begin with the last row."),
    "limit": ("integer", "How many rows to give at most."),
    "partition": ("integer", "The only partition to read."),
    "stale": ("boolean", "Whether copies may answer, however far behind."),
    "max_lag": ("integer", "How many changes what is read may be behind."),
    "at_least": ("string", "A position to have reached: [[topic, partition, offset], ...]."),
    "from": ("integer", "The offset of the first change."),
    "last_changes": ("integer", "How many changes to begin before the end; instead of from."),
    "wait_ms": ("integer", "How long to wait for the first change."),
}
_SHARED = ("partition", "stale", "max_lag", "at_least")

_READS: dict[str, tuple[str, tuple[str, ...]]] = {
    "value": ("The value of one key", ("key", "as_of", "start_ms", "end_ms", *_SHARED)),
    "rows": (
        "A range of keys",
        (
            *("first", "last", "prefix", "as_of", "first_ms", "last_ms"),
            *("by_end", "reverse", "limit"),
            *_SHARED,
        ),
    ),
    "history": (
        "The versions, windows or sessions of a key, or the versions of a range of keys",
        ("key", "first", "last", "first_ms", "last_ms", "reverse", "limit", *_SHARED),
    ),
    "changes": (
        "The changes of a partition",
        ("partition", "from", "last_changes", "limit", "wait_ms"),
    ),
    "about": ("Positions, stream time, entries", _SHARED),
}

_PLAIN = {
    "/health": "Whether the process answers",
    "/ready": "Whether everything here can be read: 200, or 503",
    "/metrics": "Metrics in Prometheus' text format",
    "/v1/instance": "What this instance has",
    "/v1/metadata": "What all known instances have",
    "/v1/topology": "The picture of the topology, as Mermaid text",
    "/v1/stores": "The stores and where their partitions are",
}


def description(served: Served) -> dict[str, Any]:
    """Return the description of what answers here."""
    names = list(served.store_names())
    store = {
        "name": "store",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "enum": names},
    }
    paths: dict[str, Any] = {
        path: {"get": {"summary": words, "responses": {"200": {"description": words}}}}
        for path, words in _PLAIN.items()
    }
    for read, (words, parameters) in _READS.items():
        paths[f"/v1/stores/{{store}}/{read}"] = {
            "get": _operation(words, [store, *map(_parameter, parameters)])
        }
    batch = _operation("The values of many keys", [store, *map(_parameter, _SHARED)])
    batch["requestBody"] = {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["keys"],
                    "properties": {
                        "keys": {"type": "array", "items": {"type": "string"}},
                        "as_of": {"type": "string"},
                    },
                }
            }
        },
    }
    paths["/v1/stores/{store}/values"] = {"post": batch}
    return {
        "openapi": "3.1.0",
        "info": {"title": "statestores", "version": version("statestores")},
        "paths": paths,
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "properties": {
                        "error": {"type": "string"},
                        "message": {"type": "string"},
                        "retryable": {"type": "boolean"},
                    },
                }
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _parameter(name: str) -> dict[str, Any]:
    kind, words = _PARAMETERS[name]
    return {"name": name, "in": "query", "description": words, "schema": {"type": kind}}


def _operation(words: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    error = {"content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}}
    return {
        "summary": words,
        "parameters": parameters,
        "responses": {
            "200": {"description": words, "content": {JSON: {}, ARROW: {}}},
            "4XX": {"description": "The question cannot be answered", **error},
            "503": {"description": "Try again, here or elsewhere", **error},
        },
    }
