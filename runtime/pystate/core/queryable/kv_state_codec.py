"""Client-side encoding by the types of a state: keys to bytes, answers to states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pystate.common.errors import StateError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.state import AggregatingStateDescriptor, MapStateDescriptor, StateDescriptor, StateKind
from pystate.core.queryable.immutable_states import (
    ImmutableAggregatingState,
    ImmutableListState,
    ImmutableMapState,
    ImmutableReducingState,
    ImmutableState,
    ImmutableValueState,
    ReadVersion,
)
from pystate.core.queryable.kv_state_messages import (
    MAX_ENTRIES,
    QueryableState,
    QueryOutcome,
    StateAnswer,
    StateRead,
    StateVersion,
)
from pystate.core.queryable.query_errors import (
    BadQueryError,
    WrongKeyTypeError,
    WrongNamespaceError,
    WrongStateTypeError,
    query_error,
)
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.keys.keys import KeyCodec, KeyCompatibility, check_key_compatible, key_type_name

PAGED = frozenset({StateKind.MAP, StateKind.LIST})
"""The kinds of state that are read page by page."""
_OF_VALUE: dict[StateKind, Callable[[Any, ReadVersion], ImmutableState]] = {
    StateKind.VALUE: ImmutableValueState,
    StateKind.REDUCING: ImmutableReducingState,
    StateKind.AGGREGATING: ImmutableAggregatingState,
}
"""What a client gets of the kinds with one value a key."""


class KvStateCodec:
    """Encodes requests and decodes answers for one queryable state.

    Args:
        state: The proxy's description.

    Attributes:
        state: The same.
        kind: Its kind.

    Raises:
        CorruptSnapshotError, RestoreError: A newer version wrote the description, or it is damaged.
    """

    def __init__(self, state: QueryableState) -> None:
        self.state = state
        self._schema = state.schema
        self.kind = self._schema.kind
        self._keys = KeyCodec(state.key_type)

    @property
    def schema(self) -> StateSchema:
        """The schema of its bytes."""
        return self._schema

    def check(self, key_type: TypeInformation | None, descriptor: StateDescriptor | None) -> None:
        """Compare the caller's declaration with that of the job.

        Args:
            key_type: None if the caller doesn't declare it.
            descriptor: The same.

        Raises:
            WrongKeyTypeError, WrongStateTypeError: They differ.
        """
        own = self.state.key_type
        if key_type is not None and check_key_compatible(own, key_type) is KeyCompatibility.INCOMPATIBLE:
            message = f"The keys of {self.state.name!r} are of type {key_type_name(own)}, not {key_type.name}."
            raise WrongKeyTypeError(message, hint=WrongKeyTypeError.remedy)
        if descriptor is None:
            return
        fits = descriptor.kind is self.kind and descriptor.type_info == self._schema.values.type_info
        if fits and isinstance(descriptor, MapStateDescriptor) and self._schema.user_keys is not None:
            fits = descriptor.key_type_info == self._schema.user_keys.key_type
        if not fits:
            message = f"The state {self.state.name!r} is a {self._schema}, which isn't what {descriptor!r} declares."
            raise WrongStateTypeError(message, hint=WrongStateTypeError.remedy)

    def read(
        self,
        key: Any,
        namespace: Any = None,
        *,
        limit: int = MAX_ENTRIES,
        prefix: Any = None,
        cursor: bytes | None = None,
    ) -> StateRead:
        """Return the request for a key.

        Args:
            key: The key.
            namespace: The window, as a pair (start, end), of window state.
            limit: How many entries or elements at most.
            prefix: The prefix of the map keys: a text, or bytes.
            cursor: The cursor to continue from.

        Raises:
            WrongKeyTypeError, WrongNamespaceError, BadQueryError: They aren't of the types that the state has.
        """
        try:
            data = self._keys.encode(self._keys.internal(key))
        except StateError as error:
            message = f"The keys of {self.state.name!r} are of type {key_type_name(self.state.key_type)}: {error.message}"
            raise WrongKeyTypeError(message, hint=WrongKeyTypeError.remedy) from error
        namespaces = self._schema.namespaces
        try:
            where = None if namespaces.is_void and namespace is None else namespaces.encode(namespaces.internal(namespace))
        except StateError as error:
            raise WrongNamespaceError(error.message, hint=WrongNamespaceError.remedy) from error
        if not 1 <= limit <= MAX_ENTRIES:
            message = f"A page has 1 to {MAX_ENTRIES} entries, not {limit}."
            raise BadQueryError(message, hint="leave the limit out, and all pages come")
        begins = None if prefix is None else self._prefix(prefix)
        return StateRead(self.state.name, data, where, limit, begins, cursor)

    def _prefix(self, prefix: Any) -> bytes:
        codec = self._schema.user_keys
        kind = None if codec is None or codec.key_type is None else codec.key_type.kind
        if codec is None or kind not in (None, TypeKind.STRING, TypeKind.PRIMITIVE_ARRAY):
            message = f"The state {self.state.name!r}, a {self._schema}, has no map keys that begin with a text or bytes."
            raise BadQueryError(message, hint="leave the prefix out")
        if not isinstance(prefix, (str, bytes)):
            message = f"A prefix is a text or bytes, not {prefix!r}."
            raise BadQueryError(message, hint="leave the prefix out, or give one of the map keys' type")
        try:
            return codec.encode(codec.internal(prefix))
        except StateError as error:
            raise BadQueryError(error.message, hint="give a prefix of the map keys' type") from error

    def decode(self, answers: Sequence[StateAnswer], now: int, descriptor: StateDescriptor | None = None) -> ImmutableState:
        """Return the state of the answers to a request: of one page, or of several of one version.

        Args:
            answers: The answers, in order.
            now: The time of the last answer, ms since 1970, by the job's clock.
            descriptor: The descriptor that converts the accumulator of an aggregating state to a result.

        Raises:
            QueryableStateError: There is no value.
        """
        last = answers[-1]
        for answer in answers:
            if answer.outcome is not QueryOutcome.OK:
                raise query_error(answer.outcome, answer.message, f"state {self.state.name!r}")
        if last.version is None:
            message = "The answer doesn't say of which version of the state it is."
            raise BadQueryError(message, hint=BadQueryError.remedy)
        version = read_version(last.version, now)
        values = self._schema.values
        if self.kind is StateKind.MAP:
            codec = self._schema.user_keys
            assert codec is not None  # noqa: S101 - maps have one
            entries = [
                (codec.external(codec.decode(key)), values.deserialize(value))
                for answer in answers
                for key, value in answer.value
            ]
            return ImmutableMapState(entries, codec.internal, version, last.cursor)
        if self.kind is StateKind.LIST:
            elements = [values.deserialize(element) for answer in answers for element in answer.value]
            return ImmutableListState(elements, version, last.cursor)
        value = values.deserialize(last.value)
        of_value = _OF_VALUE.get(self.kind)
        if of_value is None:
            message = f"State {self.state.name!r} is {self.kind.value}, which can't be queried."
            raise BadQueryError(message, hint=BadQueryError.remedy)
        if isinstance(descriptor, AggregatingStateDescriptor):
            value = descriptor.get_agg_function().get_result(value)
        return of_value(value, version)


def read_version(version: StateVersion, now: int) -> ReadVersion:
    """Return a version with its age, by the job's clock."""
    age = max(0, now - version.timestamp)
    return ReadVersion(version.epoch, version.checkpoint_id, version.timestamp, age)
