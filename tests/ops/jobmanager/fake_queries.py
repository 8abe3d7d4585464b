"""What a fake driver answers to queries of state: some states, with the types of real ones."""

from __future__ import annotations

from typing import Any

from pystate.common.typeinfo import Types
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.core.queryable.kv_state_messages import (
    Consistency,
    QueryableState,
    QueryOutcome,
    StateAnswer,
    StateVersion,
    reads_from_plain,
)
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.keys.namespaces import TIME_WINDOWS

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
ELEMENTS = 2_500
"""Of the list, which is read in pages."""

FULL = 900
"""So many of them fill an answer."""


class FakeQueries:
    """Answers requests as a proxy does."""

    def __init__(self) -> None:
        self._states: dict[str, QueryableState] = {}
        self._values: dict[tuple[str, bytes, bytes | None], Any] = {}
        average = self._declare("query-name", ValueStateDescriptor("average", PAIR), Types.LONG())
        self._put("query-name", 1, average.values.serialize((1, 2)))
        words = self._declare("words", ListStateDescriptor("words", Types.STRING()), Types.STRING())
        self._put("words", "to be", [words.values.serialize(f"word {number}") for number in range(ELEMENTS)])
        counts = self._declare("counts", MapStateDescriptor("counts", Types.STRING(), Types.LONG()), Types.STRING())
        keys = counts.user_keys
        assert keys is not None
        pairs = [[keys.encode(key), counts.values.serialize(value)] for key, value in (("be", 1), ("bee", 2), ("to", 3))]
        self._put("counts", "a", pairs)
        sums = self._declare("sums", ValueStateDescriptor("sums", Types.LONG()), Types.STRING(), TIME_WINDOWS)
        self._put("sums", "a", sums.values.serialize(7), (0, 60_000))

    def answer(self, request: dict[str, Any], now: int) -> dict[str, Any]:
        if request["op"] == "locate":
            found = [state for state in self._states.values() if request["name"] in (None, state.name)]
            if not found:
                return {"outcome": "UNKNOWN_STATE", "message": ""}
            return {"outcome": "OK", "message": "", "states": [state.to_plain() for state in found]}
        consistency = Consistency(request["consistency"])
        live = consistency is Consistency.LIVE
        version = StateVersion(18, None, now - 100) if live else StateVersion(12, 3, now - 1_000)
        answers = []
        for read in reads_from_plain(request["reads"]):
            value = self._values.get((read.name, read.key, read.namespace))
            cursor = None
            if isinstance(value, list):
                value = [one for one in value if read.prefix is None or one[0].startswith(read.prefix)]
                start = 0 if read.cursor is None else int.from_bytes(read.cursor, "big")
                stop = start + min(read.limit, FULL)
                cursor = stop.to_bytes(8, "big") if stop < len(value) else None
                value = value[start:stop]
            outcome = QueryOutcome.NO_VALUE if value is None else QueryOutcome.OK
            answers.append(StateAnswer(outcome, value, cursor, version).to_plain())
        return {"outcome": "OK", "message": "", "answers": answers, "now": now}

    def _declare(self, name: str, descriptor: Any, key_type: Any, *namespaces: Any) -> StateSchema:
        schema = StateSchema.of(descriptor, *namespaces)
        self._states[name] = QueryableState(name, "averages", key_type, 128, schema.meta_info(descriptor.name))
        return schema

    def _put(self, name: str, key: Any, value: Any, namespace: Any = None) -> None:
        state = self._states[name]
        codec, namespaces = KeyCodec(state.key_type), state.schema.namespaces
        where = None if namespace is None else namespaces.encode(namespaces.internal(namespace))
        self._values[name, codec.encode(codec.internal(key)), where] = value
