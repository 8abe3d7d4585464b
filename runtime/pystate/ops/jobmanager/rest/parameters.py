"""The parameters of requests: names, schemas, and parsing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pystate.common.errors import UsageError
from pystate.common.files.home import parse_job_id
from pystate.common.snapshot_message import check_message
from pystate.common.text.bounded_text import shown
from pystate.common.text.place_text import check_place
from pystate.ops.jobmanager.rest.schemas import TEXT, TRUTH, Schema, nullable, words

T = TypeVar("T")

_DIGITS = 18
MAX_TEXT = 4096
"""Characters of a text in a request; the longest path of Linux has as many bytes."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True, eq=False)
class Parameter(Generic[T]):
    """A parameter of a path or a query, or a field of a body.

    Args:
        name: Its name in requests.
        description: Its meaning, in one line.
        schema: The schema of its values.
        read: Parses the value; takes the name, and None for a missing query parameter or field.
        required: Whether it is required.
        names_place: Whether it names a place to read, write or delete, which needs permission.
    """

    name: str
    description: str
    schema: Schema = field(repr=False)
    read: Callable[[str, Any], T] = field(repr=False)
    required: bool = False
    names_place: bool = False


def check_spelling(
    query: Iterable[str], body: Iterable[str], query_parameters: Iterable[Parameter[Any]], fields: Iterable[Parameter[Any]]
) -> None:
    """Reject misspelled or misplaced fields: if ignored, a savepoint would go to an unintended place.

    Other unknown names are ignored, as in Flink.

    Args:
        query: The names in the query.
        body: The names in the body.
        query_parameters: The query parameters of the route.
        fields: The body's fields of the route.

    Raises:
        UsageError: A name differs from a field only in case or dashes, or is in the wrong place.
    """
    known = {_folded(field.name): field.name for field in fields}
    names = set(known.values())
    for given in body:
        meant = known.get(_folded(given))
        if meant is not None and given not in names:
            message = f"The field {shown(given)} is not known here; it is called {meant!r}."
            raise UsageError(message)
    in_query = {parameter.name for parameter in query_parameters}
    for given in query:
        meant = known.get(_folded(given))
        if meant is not None and given not in in_query:
            message = f"The parameter {shown(given)} is not known in the query; send the field {meant!r} in the body."
            raise UsageError(message)


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def number(name: str, description: str, default: int, low: int = 0, high: int = 10**_DIGITS - 1) -> Parameter[int]:
    """Return a query parameter that is an integer."""

    def read(name: str, value: Any) -> int:
        return default if value is None else _digits(name, value, low, high)

    schema = {"type": "integer", "minimum": low, "maximum": high, "default": default}
    return Parameter(name, description, schema, read)


def optional_number(name: str, description: str, low: int = 0) -> Parameter[int | None]:
    """Return a query parameter that is an integer; None where it is missing."""
    high = 10**_DIGITS - 1

    def read(name: str, value: Any) -> int | None:
        return None if value is None else _digits(name, value, low, high)

    return Parameter(name, description, {"type": "integer", "minimum": low, "maximum": high}, read)


def text_or_none(name: str, value: Any) -> str | None:
    """Return a string; None if it is missing, null or empty.

    Raises:
        UsageError: It isn't a string, or is too long.
    """
    if value is not None and (not isinstance(value, str) or "\0" in value or not value.isascii() and _has_half(value)):
        message = f"The field {name!r} must be a text, without NUL and halves of characters."
        raise UsageError(message)
    if value is not None and len(value) > MAX_TEXT:
        message = f"The field {name!r} has {len(value)} characters; it may have {MAX_TEXT}."
        raise UsageError(message)
    return value or None


def required_text(name: str, value: Any) -> str:
    """Return a string.

    Raises:
        UsageError: It is missing or empty, isn't a string, or is too long.
    """
    found = text_or_none(name, value)
    if found is None:
        message = f"The parameter {name!r} is missing."
        raise UsageError(message)
    return found


def one_word(name: str, description: str, default: str, values: tuple[str, ...], what: str) -> Parameter[str]:
    """Return a parameter with an enumeration of values.

    Args:
        name: Its name in requests.
        description: Its meaning.
        default: Its default.
        values: The allowed values.
        what: Its name in error messages.
    """

    def read(name: str, value: Any) -> str:
        word = default if value is None else text_or_none(name, value) or ""
        if word not in values:
            message = f"The {what} {shown(word)} is not known; it must be one of {', '.join(values)}."
            raise UsageError(message)
        return word

    return Parameter(name, description, {**nullable(words(*values)), "default": default}, read)


def truth(name: str, description: str) -> Parameter[bool]:
    """Return a boolean field; false if it is missing or null."""

    def read(name: str, value: Any) -> bool:
        if value is not None and not isinstance(value, bool):
            message = f"The field {name!r} must be true or false."
            raise UsageError(message)
        return bool(value)

    return Parameter(name, description, nullable(TRUTH), read)


def directory(name: str, description: str, *, required: bool = False) -> Parameter[str | None]:
    """Return a field that is an absolute path or a URL, or null if it isn't required."""

    def read(name: str, value: Any) -> str | None:
        found = text_or_none(name, value)
        if found is not None and not found.startswith("/") and not _URL.match(found):
            message = f"The directory {shown(found)} must be an absolute path or a URL."
            raise UsageError(message, where=name)
        if found is not None:
            check_place(found, UsageError, name)
        return found

    end = "" if required else "|$"
    place = {"type": "string", "maxLength": MAX_TEXT, "pattern": f"^(/|[A-Za-z][A-Za-z0-9+.-]*:/{end})"}
    return Parameter(name, description, place if required else nullable(place), read, required, names_place=True)


def _hex_id(name: str, description: str) -> Parameter[str]:
    schema = {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}
    return Parameter(
        name, description, schema, lambda name, value: parse_job_id(text_or_none(name, value) or ""), required=True
    )


def _trigger_id(name: str, value: Any) -> str | None:
    return None if value is None else parse_job_id(text_or_none(name, value) or "")


def _digits(name: str, text: str, low: int, high: int) -> int:
    # int() also accepts "1_000" and digits of other scripts
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS) or not low <= int(text) <= high:
        message = f"The parameter {name!r} must be a whole number from {low} to {high}."
        raise UsageError(message)
    return int(text)


def _message(name: str, value: Any) -> str | None:
    found = text_or_none(name, value)
    return None if found is None else check_message(found)


def _has_half(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


JOB_ID = _hex_id("job_id", "The job.")
TRIGGER_ID = _hex_id("trigger_id", "The request id that the trigger answered.")
VERTEX_ID = _hex_id("vertex_id", "The operator: the hash of its uid.")
CHECKPOINT_ID = Parameter[int](
    "checkpoint_id",
    "The checkpoint.",
    {"type": "integer", "minimum": 0, "maximum": 10**_DIGITS - 1},
    lambda name, value: _digits(name, value, 0, 10**_DIGITS - 1),
    required=True,
)
TASK_MANAGER_ID = _hex_id("taskmanager_id", "The driver: the id of its job.")
LOG_NAME = Parameter[str]("log_name", "The name of the file.", TEXT, lambda _name, value: str(value), required=True)
SUBTASK_INDEX = Parameter[int](
    "subtask_index",
    "The subtask, from 0.",
    {"type": "integer", "minimum": 0, "maximum": 10**_DIGITS - 1},
    lambda name, value: _digits(name, value, 0, 10**_DIGITS - 1),
    required=True,
)
PATH_PARAMETERS: dict[str, Parameter[Any]] = {
    parameter.name: parameter
    for parameter in (JOB_ID, TRIGGER_ID, VERTEX_ID, CHECKPOINT_ID, TASK_MANAGER_ID, LOG_NAME, SUBTASK_INDEX)
}
"""The placeholders that paths may have."""

CHOSEN_TRIGGER_ID = Parameter[str | None](
    "triggerId",
    "The request id; the same one again is the same request. Chosen here where it is missing.",
    nullable({"type": "string", "pattern": "^([0-9a-fA-F]{32})?$"}),
    _trigger_id,
)
CHOSEN_JOB_ID = Parameter[str | None](
    "job_id",
    "The id of the new job: the same one again starts no second one. Chosen here where it is missing.",
    nullable(JOB_ID.schema),
    lambda name, value: None if value is None else JOB_ID.read(name, value),
)
FORMAT_TYPE = one_word("formatType", "The savepoint's format.", "CANONICAL", ("CANONICAL", "NATIVE"), "savepoint format")
MESSAGE = Parameter[str | None](
    "message",
    "What is to be said about the savepoint; not Flink's.",
    nullable(TEXT),
    _message,
)
