"""Words to write JSON schemas with: what requests and answers look like."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

ANYTHING: Schema = {}
TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
TRUTH: Schema = {"type": "boolean"}
HEX_ID: Schema = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
EMPTY: Schema = {"type": "object", "additionalProperties": False}


def words(*values: str) -> Schema:
    """Return the schema of a text that is one of some words."""
    return {"type": "string", "enum": list(values)}


def array(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    """Return the schema of an object whose keys are not known beforehand."""
    return {"type": "object", "additionalProperties": values}


def either(*schemas: Schema) -> Schema:
    """Return the schema of what is of one kind or another."""
    return {"anyOf": list(schemas)}


def nullable(schema: Schema) -> Schema:
    """Return the schema of what may be null."""
    return either(schema, {"type": "null"})


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": sorted(required),
        "additionalProperties": False,
    }


OUR_ERROR = record(
    {"class": TEXT, "message": TEXT, "where": nullable(TEXT), "hint": nullable(TEXT)}, {"table": array(array(TEXT))}
)
"""An error of ours, as people see it."""
ERRORS = record({"errors": array(TEXT)}, {"pystate": OUR_ERROR})
"""What every refused request is answered with."""
FAILURE_CAUSE = record({"class": TEXT, "stack-trace": TEXT, "serialized-throwable": TEXT, "pystate": OUR_ERROR})
"""Why something failed, in Flink's shape and in ours."""
REQUEST_ID = record({"request-id": HEX_ID})
"""What a trigger is answered with."""


def async_result(*results: Schema) -> Schema:
    """Return the schema of what a request id is answered with.

    Args:
        results: What `operation` may be once it's complete.
    """
    in_progress = record(
        {"status": record({"id": words("IN_PROGRESS")}), "operation": {"type": "null"}}, {"pystate": mapping(INTEGER)}
    )
    return either(in_progress, record({"status": record({"id": words("COMPLETED")}), "operation": either(*results)}))
