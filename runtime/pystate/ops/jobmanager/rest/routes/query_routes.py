"""The routes that read the state of running jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pystate.common.errors import UsageError
from pystate.common.text.bounded_text import shown
from pystate.core.queryable.kv_state_messages import MAX_ENTRIES
from pystate.core.queryable.outcomes import Consistency, QueryOutcome
from pystate.core.queryable.query_errors import query_error
from pystate.ops.jobmanager.rest.parameters import MAX_TEXT, Parameter, number, one_word, required_text, text_or_none
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.ops.jobmanager.rest.schemas import TEXT, Schema, array, nullable, record
from pystate.ops.jobmanager.supervision.job_queries import JsonRead
from pystate.runtime.rest.query_messages import KvStateAnswer, KvStateAnswers, QueryableStates

MAX_READS_OF_A_REQUEST = 1000
_PAGE = 1000
_PATH = "/pystate/jobs/{job_id}/queryable-state"
_CURSOR: Schema = {"type": "string", "pattern": "^([0-9a-f]{2})*$", "maxLength": MAX_TEXT}
_LIMIT: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_ENTRIES}
_READ: Schema = record(
    {"state": TEXT, "key": {}},
    {"namespace": {}, "limit": nullable(_LIMIT), "prefix": nullable(TEXT), "cursor": nullable(_CURSOR)},
)
_REFUSALS = (409, 413)


def _key(name: str, value: Any) -> str:
    """Return the text of a key, which may be empty."""
    if not isinstance(value, str):
        message = f"The parameter {name!r} is missing."
        raise UsageError(message)
    text_or_none(name, value)
    return value


def _cursor(name: str, value: Any) -> bytes | None:
    text = text_or_none(name, value)
    try:
        return None if text is None else bytes.fromhex(text)
    except ValueError as error:
        message = f"The cursor {shown(text or '')} is none that an answer had."
        raise UsageError(message) from error


def _namespace(name: str, value: Any) -> Any:
    text = text_or_none(name, value)
    if text is None:
        return None
    try:
        return json.loads(text if text.startswith(("[", "{", '"')) or "," not in text else f"[{text}]")
    except (ValueError, RecursionError):
        return text


_CONSISTENCY = one_word(
    "consistency",
    "Which version is read: that of the last completed checkpoint, or that of the last finished epoch.",
    Consistency.CHECKPOINTED.value,
    tuple(one.value for one in Consistency),
    "consistency",
)
_STATE = Parameter[str]("state", "The queryable name.", TEXT, required_text, required=True)
_KEY = Parameter[str](
    "key", "The key: a text as it is, a number, `true`, others as JSON, by the type of the keys.", TEXT, _key, required=True
)
_NAMESPACE = Parameter[Any](
    "namespace", "Of window state: the window, `start,end` in ms since 1970; others as JSON.", nullable(TEXT), _namespace
)
_LIMIT_OF_PAGE = number(
    "limit",
    "How many elements or entries at most; a page may have fewer, and the last one has no `cursor`.",
    _PAGE,
    1,
    MAX_ENTRIES,
)
_PREFIX = Parameter[str | None]("prefix", "Only the entries of a map whose keys begin so.", nullable(TEXT), text_or_none)
_NEXT = Parameter[bytes | None]("cursor", "The `cursor` of the page before.", nullable(_CURSOR), _cursor)


def _list(request: RestRequest) -> QueryableStates:
    return QueryableStates(states=request.job.queries.states())


def _value(request: RestRequest) -> KvStateAnswer:
    read = JsonRead(
        request[_STATE],
        request[_KEY],
        True,
        request[_NAMESPACE],
        request[_LIMIT_OF_PAGE],
        request[_PREFIX],
        request[_NEXT],
    )
    (answer,) = request.job.queries.read(Consistency(request[_CONSISTENCY]), [read])
    outcome = QueryOutcome(answer.outcome)
    if outcome is not QueryOutcome.OK:
        raise query_error(outcome, answer.message or "", f"state {read.state!r}, key {shown(read.key)}")
    return answer


def _reads(name: str, value: Any) -> Sequence[JsonRead]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_READS_OF_A_REQUEST:
        message = f"The field {name!r} must be a list of 1 to {MAX_READS_OF_A_REQUEST} reads."
        raise UsageError(message)
    return [_json_read(one) for one in value]


def _json_read(value: Any) -> JsonRead:
    if not isinstance(value, dict) or not value.keys() >= {"state", "key"} or not value.keys() <= set(_READ["properties"]):
        message = "A read is an object with state and key, and maybe namespace, limit, prefix and cursor."
        raise UsageError(message)
    limit = value.get("limit")
    if limit is not None and (type(limit) is not int or not 1 <= limit <= MAX_ENTRIES):
        message = f"The limit of a read must be a whole number from 1 to {MAX_ENTRIES}."
        raise UsageError(message)
    state, prefix = required_text("state", value["state"]), text_or_none("prefix", value.get("prefix"))
    cursor = _cursor("cursor", value.get("cursor"))
    return JsonRead(state, value["key"], False, value.get("namespace"), _PAGE if limit is None else limit, prefix, cursor)


_READS = Parameter[Sequence[JsonRead]](
    "reads",
    "States and keys; the keys as JSON, by the type of the keys.",
    {**array(_READ), "minItems": 1, "maxItems": MAX_READS_OF_A_REQUEST},
    _reads,
    required=True,
)


def _many(request: RestRequest) -> KvStateAnswers:
    return KvStateAnswers(answers=request.job.queries.read(Consistency(request[_CONSISTENCY]), request[_READS]))


ROUTES = (
    RestRoute(
        "GET",
        _PATH,
        _list,
        "The states of a job that can be read while it runs.",
        QueryableStates,
        asks_driver=True,
        owner_only=True,
        refusals=_REFUSALS,
    ),
    RestRoute(
        "GET",
        f"{_PATH}/value",
        _value,
        "What a queryable state has for a key.",
        KvStateAnswer,
        query=(_STATE, _KEY, _NAMESPACE, _CONSISTENCY, _LIMIT_OF_PAGE, _PREFIX, _NEXT),
        asks_driver=True,
        owner_only=True,
        refusals=_REFUSALS,
    ),
    RestRoute(
        "POST",
        f"{_PATH}/values",
        _many,
        "What queryable states have for keys, in one version.",
        KvStateAnswers,
        body=(_CONSISTENCY, _READS),
        asks_driver=True,
        owner_only=True,
        refusals=_REFUSALS,
    ),
)
