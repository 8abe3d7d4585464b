"""What a caller asks of a client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pystate.common.type_info import TypeInformation
from pystate.core.api.state import StateDescriptor


@dataclass(frozen=True)
class KvStateRequest:
    """One state of one key, for `QueryableStateClient.get_kv_states`.

    Attributes:
        name: The queryable name.
        key: The key.
        key_type: Its type; None for what the job says.
        descriptor: Of the state; None for what the job says. An aggregating state is its accumulator without it.
        namespace: Of window state the window: a pair (start, end), ms since 1970.
        prefix: Of a map: only entries whose key, a text or bytes, begins so.
    """

    name: str
    key: Any
    key_type: TypeInformation | None = None
    descriptor: StateDescriptor | None = field(default=None)
    namespace: Any = None
    prefix: str | bytes | None = None
