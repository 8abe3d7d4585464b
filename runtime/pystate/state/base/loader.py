"""Which state backends there are, by the names that `state.backend.type` takes."""

from __future__ import annotations

import importlib

from pystate.common.errors import ConfigurationError
from pystate.common.key_groups import KeyGroupRange
from pystate.state.base.backend import KeyedStateBackend
from pystate.state.base.keys import KeyCodec

# imported when asked for, since a backend may stand on a library of its own
_BACKENDS = {
    "hashmap": ("pystate.state.hashmap.backend", "HashMapKeyedStateBackend"),
    "rocksdb": ("pystate.state.rocksdb.backend", "RocksDBKeyedStateBackend"),
}


def state_backend_names() -> list[str]:
    """Return the names of the backends."""
    return sorted(_BACKENDS)


def create_state_backend(
    name: str,
    *,
    key_codec: KeyCodec,
    key_group_range: KeyGroupRange,
    max_parallelism: int,
    working_directory: str | None = None,
) -> KeyedStateBackend:
    """Return a new, empty backend.

    Args:
        name: One of `state_backend_names()`.
        key_codec: See `KeyedStateBackend`.
        key_group_range: See `KeyedStateBackend`.
        max_parallelism: See `KeyedStateBackend`.
        working_directory: See `KeyedStateBackend`; rocksdb needs one.

    Raises:
        ConfigurationError: There is no such backend, or it needs a working directory.
        StateError: It can't use the working directory.
    """
    if name not in _BACKENDS:
        message = f"There is no state backend {name!r}; allowed: {', '.join(state_backend_names())}."
        raise ConfigurationError(message, where="state.backend.type")
    module, attribute = _BACKENDS[name]
    backend_class: type[KeyedStateBackend] = getattr(importlib.import_module(module), attribute)
    return backend_class(
        key_codec=key_codec,
        key_group_range=key_group_range,
        max_parallelism=max_parallelism,
        working_directory=working_directory,
    )
