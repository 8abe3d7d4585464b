"""The messages of queryable state between clients, proxies and slots: msgpack maps, never pickle.

A client's request goes to the proxy of the job, which sends each slot the reads of its key groups. Keys, namespaces and
values are bytes as in snapshots (`state.base.schema`); timestamps of a time to live are removed, and expired values are
omitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystate.common.type_info import TypeInformation
from pystate.core.queryable.outcomes import Consistency as Consistency
from pystate.core.queryable.outcomes import QueryOutcome as QueryOutcome
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.files.canonical import StateMetaInfoSnapshot

PROTOCOL_VERSION = 1

MAX_REQUEST_BYTES = 1 << 20
"""A larger request isn't read."""

MAX_ANSWER_BYTES = 16 << 20
"""A larger answer isn't sent: ask for less of a map or list at a time."""

MAX_READS = 10_000
"""The most keys and states that one request may ask for."""

MAX_ENTRIES = 10_000
"""The most entries of a map, or elements of a list, in one answer."""


@dataclass(frozen=True)
class StateVersion:
    """The version of the state in an answer.

    Attributes:
        epoch: The last epoch in it; -1 if none has ended yet.
        checkpoint_id: The checkpoint; None for live state, and if there is no checkpoint yet.
        timestamp: When that epoch ended, or the checkpoint was triggered; ms since 1970.
    """

    epoch: int
    checkpoint_id: int | None
    timestamp: int

    def to_plain(self) -> dict[str, Any]:
        """Return it as msgpack-able data."""
        return {"epoch": self.epoch, "checkpoint_id": self.checkpoint_id, "timestamp": self.timestamp}

    @staticmethod
    def from_plain(plain: Any) -> StateVersion:
        """Rebuild it.

        Raises:
            ValueError, TypeError, LookupError: The data is none.
        """
        checkpoint_id = plain["checkpoint_id"]
        return StateVersion(
            int(plain["epoch"]), None if checkpoint_id is None else int(checkpoint_id), int(plain["timestamp"])
        )


@dataclass(frozen=True)
class QueryableState:
    """A state that can be read.

    Attributes:
        name: Its queryable name, unique in the job.
        uid: The uid of the operator.
        key_type: The type of the keys; None for untyped ones.
        max_parallelism: The number of key groups.
        state: The description of the state, including its name in the operator.
    """

    name: str
    uid: str
    key_type: TypeInformation | None
    max_parallelism: int
    state: StateMetaInfoSnapshot

    @property
    def schema(self) -> StateSchema:
        """The schema of its bytes.

        Raises:
            CorruptSnapshotError, RestoreError: A newer version wrote them, or they are damaged.
        """
        return StateSchema.from_meta_info(self.state)

    def to_plain(self) -> dict[str, Any]:
        """Return it as msgpack-able data."""
        return {
            "name": self.name,
            "uid": self.uid,
            "key_type": None if self.key_type is None else self.key_type.to_plain(),
            "max_parallelism": self.max_parallelism,
            "state": self.state.to_plain(),
        }

    @staticmethod
    def from_plain(plain: Any) -> QueryableState:
        """Rebuild it.

        Raises:
            ValueError, TypeError, LookupError: The data is none.
        """
        key_type = None if plain["key_type"] is None else TypeInformation.from_plain(plain["key_type"])
        state = StateMetaInfoSnapshot.from_plain(plain["state"])
        return QueryableState(str(plain["name"]), str(plain["uid"]), key_type, int(plain["max_parallelism"]), state)


@dataclass(frozen=True)
class StateRead:
    """A read of one state for one key.

    Attributes:
        name: The queryable name.
        key: The key's bytes, tag and payload (`KeyCodec.encode`).
        namespace: The namespace's bytes with their length (`NamespaceSerializer.encode`); None for the void one.
        limit: The maximum number of map entries or list elements.
        prefix: Of a map: the prefix of the key's bytes (including the map key's tag).
        cursor: The cursor of the previous answer; None for the beginning.
    """

    name: str
    key: bytes
    namespace: bytes | None = None
    limit: int = MAX_ENTRIES
    prefix: bytes | None = None
    cursor: bytes | None = None

    def to_plain(self) -> list[Any]:
        """Return it as msgpack-able data."""
        return [self.name, self.key, self.namespace, self.limit, self.prefix, self.cursor]

    @staticmethod
    def from_plain(plain: Any) -> StateRead:
        """Rebuild it from untrusted data.

        Raises:
            ValueError, TypeError: The data isn't valid.
        """
        name, key, namespace, limit, prefix, cursor = plain
        parts = (namespace, prefix, cursor)
        if (
            type(name) is not str
            or type(key) is not bytes
            or not key
            or any(type(one) not in (bytes, type(None)) for one in parts)
        ):
            message = "a read is a name, a key, a namespace, a limit, a prefix and a cursor"
            raise ValueError(message)
        if type(limit) is not int or not 1 <= limit <= MAX_ENTRIES:
            message = f"a read is limited to 1 to {MAX_ENTRIES} entries"
            raise ValueError(message)
        return StateRead(name, key, namespace, limit, prefix, cursor)


@dataclass(frozen=True)
class StateAnswer:
    """The answer to a read.

    Attributes:
        outcome: The outcome.
        value: The bytes of a value or accumulator; a list of the bytes of elements; a list of pairs (bytes of the map key,
            bytes of its value) of a map. None if there is none.
        cursor: Where the next entries begin; None if these were all.
        version: The version that was read; None if nothing was read.
        message: The error message; empty if there is none.
    """

    outcome: QueryOutcome
    value: Any = None
    cursor: bytes | None = None
    version: StateVersion | None = None
    message: str = ""

    def to_plain(self) -> list[Any]:
        """Return it as msgpack-able data."""
        version = None if self.version is None else self.version.to_plain()
        return [self.outcome.value, self.value, self.cursor, version, self.message]

    @staticmethod
    def from_plain(plain: Any) -> StateAnswer:
        """Rebuild it.

        Raises:
            ValueError, TypeError, LookupError: The data is none.
        """
        outcome, value, cursor, version, message = plain
        found = None if version is None else StateVersion.from_plain(version)
        return StateAnswer(QueryOutcome(outcome), value, cursor, found, str(message))


def reads_from_plain(plain: Any) -> list[StateRead]:
    """Rebuild the reads of a request from untrusted data.

    Raises:
        ValueError, TypeError: The data isn't valid, or has too many reads.
    """
    if not isinstance(plain, list) or not 1 <= len(plain) <= MAX_READS:
        message = f"a request has 1 to {MAX_READS} reads"
        raise ValueError(message)
    return [StateRead.from_plain(one) for one in plain]
