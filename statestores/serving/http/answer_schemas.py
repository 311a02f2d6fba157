"""What answers look like, as JSON schemas: the other half of the OpenAPI description."""

from typing import Any

from statestores.serving.http.rendering import JSON

_TEXT: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_NUMBER: dict[str, Any] = {"type": "integer"}
_MAYBE_NUMBER: dict[str, Any] = {"type": ["integer", "null"]}
_MAYBE_TEXT: dict[str, Any] = {"type": ["string", "null"]}
_ANYTHING: dict[str, Any] = {}
_TIMES = ("timestamp_ms", "valid_from_ms", "valid_to_ms", "start_ms", "end_ms")


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
        "additionalProperties": False,
    }


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_TIMES_OF_ROWS = dict.fromkeys(_TIMES, _MAYBE_NUMBER)
_ROWS = {"rows": _list(_ref("Row")), "more": _FLAG, "next": _MAYBE_TEXT}
_ROLE = {"type": "string", "enum": ["active", "promoting", "restoring", "standby"]}
_OFFSETS = {"current_offset": _MAYBE_NUMBER, "end_offset": _MAYBE_NUMBER}
_HERE = {"partition": _NUMBER, "role": _ROLE, **_OFFSETS, "offset_lag": _MAYBE_NUMBER}

SCHEMAS: dict[str, Any] = {
    "Error": _object({"error": _TEXT, "message": _TEXT, "retryable": _FLAG}),
    "Health": _object({"status": {"const": "up"}}),
    "Ready": _object({"ready": _FLAG}),
    "Row": _object({"key": _ANYTHING, "value": _ANYTHING}, **_TIMES_OF_ROWS),
    "Rows": _object(_ROWS),
    "Value": _object({**_ROWS, "found": _FLAG, "key": _ANYTHING}),
    "Changes": _object(
        {
            "changes": _list(
                {
                    "type": "object",
                    "required": ["offset", "partition", "operation", "key", "value"],
                    "properties": {
                        "offset": _NUMBER,
                        "partition": _NUMBER,
                        "operation": {"type": "string", "enum": ["put", "delete", "clear"]},
                    },
                }
            ),
            "next": _NUMBER,
            "end": _NUMBER,
            "partition": _NUMBER,
        }
    ),
    "About": _object(
        {"position": _list({"type": "array"})},
        stream_time_ms=_MAYBE_NUMBER,
        entries=_NUMBER,
    ),
    "Store": {
        "type": "object",
        "required": ["name", "kind", "partitions", "here"],
        "properties": {
            "name": _TEXT,
            "kind": _TEXT,
            "partitions": _NUMBER,
            "here": _list(_object(_HERE)),
        },
    },
    "Stores": _object(
        {"stores": _list(_ref("Store")), "waiting": _list(_TEXT), "answers_from_copies": _FLAG}
    ),
    "Instance": {
        "type": "object",
        "required": ["format", "instance", "host", "http", "stores", "partitions"],
        "properties": {"instance": _TEXT, "host": _MAYBE_TEXT, "http": _MAYBE_TEXT},
    },
    "Instances": _object({"instances": _list(_ref("Instance"))}),
    "Topology": _object({"mermaid": _MAYBE_TEXT}),
    "Where": _object(
        {
            "partition": _NUMBER,
            "active": _MAYBE_TEXT,
            "standbys": _list(_TEXT),
            "instances": _list(
                _object(
                    {
                        "instance": _TEXT,
                        "role": _ROLE,
                        "host": _MAYBE_TEXT,
                        "http": _MAYBE_TEXT,
                        "offset_lag": _MAYBE_NUMBER,
                    }
                )
            ),
        }
    ),
}
"""The documents by their names."""


def answer(words: str, schema: str) -> dict[str, Any]:
    """Return an answer that is a document of *schema*."""
    return {"description": words, "content": {JSON: {"schema": _ref(schema)}}}
