"""Queryable state."""

from __future__ import annotations

from typing import Any

from pystate.common.text.plain_data import entry, unless_none
from pystate.runtime.rest.message import RestMessage


class QueryableStateInfo(RestMessage):
    """A state that can be read while its job runs.

    Attributes:
        name: Its queryable name.
        uid: The uid of its operator.
        kind: VALUE, LIST, MAP, REDUCING or AGGREGATING.
        key_type: The type of the keys.
        type: The type of the values, the elements or the map's values.
        map_key_type: The type of the map's keys.
        namespace: `void`, or what the state is scoped by besides the key, such as `time window`.
    """

    name: str
    uid: str
    kind: str
    key_type: str = entry("key-type")
    type: str
    map_key_type: str | None = unless_none("map-key-type", default=None)
    namespace: str


class QueryableStates(RestMessage):
    """The queryable states of a job."""

    states: list[QueryableStateInfo]


class KvStateVersion(RestMessage):
    """Which version of a state was read.

    Attributes:
        epoch: The last epoch in it; -1 where none has ended yet.
        checkpoint_id: The checkpoint that it is; null for a live one.
        timestamp: When that epoch ended, or the checkpoint was triggered.
        age: How long ago that was, in ms.
    """

    epoch: int
    checkpoint_id: int | None = entry("checkpoint-id")
    timestamp: int
    age: int


class KvStateEntry(RestMessage):
    """An entry of a map."""

    key: Any
    value: Any


class KvStateAnswer(RestMessage):
    """What a state has for a key.

    Attributes:
        state: The queryable name.
        outcome: `OK`, or why there is no value: `NO_VALUE`, `WRONG_KEY_TYPE`, `UNKNOWN_STATE`, ...
        value: The value, or an accumulator; missing where there is none, and of lists and maps.
        elements: The elements of a list.
        entries: The entries of a map.
        cursor: Where the next page of a list or map begins; missing at the end.
        version: Of what; null where nothing was read.
        message: What was wrong.
    """

    state: str
    outcome: str
    value: Any | None = unless_none(default=None)
    elements: list[Any] | None = unless_none(default=None)
    entries: list[KvStateEntry] | None = unless_none(default=None)
    cursor: str | None = unless_none(default=None)
    version: KvStateVersion | None
    message: str | None = unless_none(default=None)


class KvStateAnswers(RestMessage):
    """What states have for keys, in the order asked for."""

    answers: list[KvStateAnswer]
