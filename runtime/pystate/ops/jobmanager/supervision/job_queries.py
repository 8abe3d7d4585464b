"""Queries of a job's state through its driver, for REST clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pystate.common.errors import JobTerminatedError, UsageError
from pystate.common.text.json_text import json_able
from pystate.core.queryable.immutable_states import (
    ImmutableListState,
    ImmutableMapState,
    ImmutableValueState,
    ReadVersion,
)
from pystate.core.queryable.kv_state_codec import KvStateCodec, read_version
from pystate.core.queryable.kv_state_messages import QueryableState, StateAnswer, StateRead
from pystate.core.queryable.outcomes import Consistency, QueryOutcome
from pystate.core.queryable.query_errors import QueryableStateError, WrongKeyTypeError, WrongNamespaceError, query_error
from pystate.core.snapshot.reading.key_text import json_key, parse_key
from pystate.core.state.keys.keys import key_type_name
from pystate.core.state.keys.namespaces import KeyNamespaceSerializer, NamespaceSerializer
from pystate.ops.jobmanager.drivers.driver_gateway import DriverGateway, DriverUnreachableError
from pystate.runtime.rest.query_messages import KvStateAnswer, KvStateEntry, KvStateVersion, QueryableStateInfo


@dataclass(frozen=True)
class JsonRead:
    """A request for one state of one key, in JSON.

    Attributes:
        state: The queryable name.
        key: The key: a text as typed, or a JSON value.
        is_text: Whether it is a text as typed.
        namespace: A pair [start, end] for window state; other types like keys.
        limit: The maximum number of entries or elements.
        prefix: The prefix of map keys.
        cursor: The position to continue from.
    """

    state: str
    key: Any
    is_text: bool
    namespace: Any
    limit: int
    prefix: str | None
    cursor: bytes | None


class JobQueries:
    """Sends queries to the driver of one job.

    Args:
        job_id: The job.
        gateway: The gateway to its driver.
    """

    def __init__(self, job_id: str, gateway: DriverGateway) -> None:
        self._job_id = job_id
        self._gateway = gateway

    def states(self) -> list[QueryableStateInfo]:
        """Return the queryable states.

        Raises:
            QueryableStateError: The job can't answer queries, at the moment or at all.
            JobTerminatedError: It has ended.
        """
        return [_info(KvStateCodec(QueryableState.from_plain(plain))) for plain in self._ask("locate", name=None)["states"]]

    def read(self, consistency: Consistency, wanted: Sequence[JsonRead]) -> list[KvStateAnswer]:
        """Return the answers to reads, in one version.

        Raises:
            QueryableStateError: The job can't answer queries, at the moment or at all.
            JobTerminatedError: It has ended.
        """
        codecs = {name: self._located(name) for name in {one.state for one in wanted}}
        answers: dict[int, KvStateAnswer] = {}
        reads: dict[int, StateRead] = {}
        for place, one in enumerate(wanted):
            codec = codecs[one.state]
            try:
                if isinstance(codec, QueryableStateError):
                    raise codec
                reads[place] = _read(codec, one)
            except QueryableStateError as error:
                answers[place] = _refused(one.state, error)
        if reads:
            plain = [one.to_plain() for one in reads.values()]
            reply = self._ask("read", consistency=consistency.value, reads=plain)
            for place, found in zip(reads, reply["answers"], strict=True):
                name = wanted[place].state
                codec = codecs[name]
                assert isinstance(codec, KvStateCodec)  # noqa: S101 - it has made the read
                answers[place] = _answer(name, codec, StateAnswer.from_plain(found), int(reply["now"]))
        return [answers[place] for place in range(len(wanted))]

    def _located(self, name: str) -> KvStateCodec | QueryableStateError:
        try:
            (plain,) = self._ask("locate", name=name)["states"]
        except QueryableStateError as error:
            if error.outcome is QueryOutcome.UNKNOWN_STATE:
                return error
            raise
        return KvStateCodec(QueryableState.from_plain(plain))

    def _ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        if self._gateway.is_closed:
            message = "The job has ended, and its state with it."
            hint = "pystate savepoints list shows what it has left, pystate state read what is in that"
            raise JobTerminatedError(message, hint=hint)
        where = f"job {self._job_id}"
        if self._gateway.has_no_driver:
            raise query_error(QueryOutcome.NOT_SERVING, "", where)
        try:
            reply = dict(self._gateway.call("query", request={"op": op, "job": self._job_id, **arguments}))
        except DriverUnreachableError as error:
            raise query_error(QueryOutcome.NOT_SERVING, error.message, where) from error
        outcome = QueryOutcome(reply["outcome"])
        if outcome is not QueryOutcome.OK:
            name = arguments.get("name")
            raise query_error(outcome, str(reply["message"]), where if name is None else f"state {name!r}, {where}")
        return reply


def _info(codec: KvStateCodec) -> QueryableStateInfo:
    schema, state = codec.schema, codec.state
    return QueryableStateInfo(
        name=state.name,
        uid=state.uid,
        kind=codec.kind.value,
        key_type=key_type_name(state.key_type),
        type=schema.values.type_name,
        map_key_type=None if schema.user_keys is None else key_type_name(schema.user_keys.key_type),
        namespace=schema.namespaces.name,
    )


def _read(codec: KvStateCodec, one: JsonRead) -> StateRead:
    try:
        key = (parse_key if one.is_text else json_key)(one.key, codec.state.key_type)
    except UsageError as error:
        raise WrongKeyTypeError(error.message, hint=WrongKeyTypeError.remedy) from error
    try:
        namespace = _namespace(one.namespace, codec.schema.namespaces)
    except UsageError as error:
        raise WrongNamespaceError(error.message, hint=WrongNamespaceError.remedy) from error
    return codec.read(key, namespace, limit=one.limit, prefix=one.prefix, cursor=one.cursor)


def _namespace(value: Any, namespaces: NamespaceSerializer) -> Any:
    if value is None or not isinstance(namespaces, KeyNamespaceSerializer):
        return tuple(value) if isinstance(value, list) else value
    return json_key(value, namespaces.type_info)


def _refused(name: str, error: QueryableStateError) -> KvStateAnswer:
    return KvStateAnswer(state=name, outcome=error.outcome.value, version=None, message=error.message)


def _answer(name: str, codec: KvStateCodec, answer: StateAnswer, now: int) -> KvStateAnswer:
    if answer.outcome is not QueryOutcome.OK:
        said = query_error(answer.outcome, answer.message).message
        version = None if answer.version is None else _version(read_version(answer.version, now))
        return KvStateAnswer(state=name, outcome=answer.outcome.value, version=version, message=said)
    state = codec.decode([answer], now)
    cursor = None if state.cursor is None else state.cursor.hex()
    answer_of = partial(
        KvStateAnswer, state=name, outcome=QueryOutcome.OK.value, cursor=cursor, version=_version(state.version)
    )
    if isinstance(state, ImmutableListState):
        return answer_of(elements=[json_able(one) for one in state.get()])
    if isinstance(state, ImmutableMapState):
        return answer_of(entries=[KvStateEntry(key=json_able(key), value=json_able(value)) for key, value in state.items()])
    value = state.value() if isinstance(state, ImmutableValueState) else cast(Any, state).get()
    return answer_of(value=json_able(value))


def _version(version: ReadVersion) -> KvStateVersion:
    return KvStateVersion(
        epoch=version.epoch, checkpoint_id=version.checkpoint_id, timestamp=version.timestamp, age=version.age_ms
    )
