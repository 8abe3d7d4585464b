"""The request of a queryable state."""

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
        key_type: The type of the key; None for that of the job.
        descriptor: The descriptor of the state; None for that of the job. Without it an aggregating state is its
            accumulator.
        namespace: For window state the window: a pair (start, end), ms since 1970.
        prefix: For a map: only entries whose key, a string or bytes, has this prefix.
    """

    name: str
    key: Any
    key_type: TypeInformation | None = None
    descriptor: StateDescriptor | None = field(default=None)
    namespace: Any = None
    prefix: str | bytes | None = None
