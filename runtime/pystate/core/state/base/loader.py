"""Loads state backends by the names and paths of `state.backend.type`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.state_backend_options import StateBackendOptions
from pystate.common.configuration.option_types import nearest_name
from pystate.common.errors import ConfigurationError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.time import current_time_ms
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.keys.keys import KeyCodec

# imported on demand, since a backend may depend on its own library
_BACKENDS = {
    "hashmap": "pystate.core.state.hashmap.hashmap_keyed_state_backend:HashMapKeyedStateBackend",
    "rocksdb": "pystate.core.state.rocksdb.rocksdb_keyed_state_backend:RocksDBKeyedStateBackend",
}


def state_backend_names() -> list[str]:
    """Return the names of the backends that come with pystate."""
    return sorted(_BACKENDS)


def create_state_backend(
    name: str,
    *,
    key_codec: KeyCodec,
    key_group_range: KeyGroupRange,
    max_parallelism: int,
    working_directory: str | None = None,
    configuration: Configuration | None = None,
    clock: Callable[[], int] = current_time_ms,
) -> KeyedStateBackend:
    """Return a new, empty backend.

    Args:
        name: One of `state_backend_names()`, or the path of a factory: `package.module:Class` or `package.module.Class`, a
            subclass of `KeyedStateBackend`, or a function that takes the same arguments and returns a backend.
        key_codec: See `KeyedStateBackend`.
        key_group_range: See `KeyedStateBackend`.
        max_parallelism: See `KeyedStateBackend`.
        working_directory: See `KeyedStateBackend`; rocksdb needs one.
        configuration: See `KeyedStateBackend`.
        clock: See `KeyedStateBackend`.

    Raises:
        ConfigurationError: There is no such backend, or it needs a working directory.
        StateError: It can't use the working directory.
    """
    backend = _factory(name)(
        key_codec=key_codec,
        key_group_range=key_group_range,
        max_parallelism=max_parallelism,
        working_directory=working_directory,
        configuration=configuration,
        clock=clock,
    )
    if not isinstance(backend, KeyedStateBackend):
        raise _refused(name, f"it makes a {type(backend).__qualname__}, which is no KeyedStateBackend")
    return backend


def name_of(backend: KeyedStateBackend) -> str:
    """Return the displayed name of a backend: its name if it has one, else that of its class."""
    kind = type(backend)
    path = f"{kind.__module__}:{kind.__qualname__}"
    return next((f"the {name} state backend" for name, known in _BACKENDS.items() if known == path), kind.__qualname__)


def check_state_backend(name: str) -> None:
    """Reject a name or path that leads to no backend.

    Raises:
        ConfigurationError: So it is.
    """
    _factory(name)


def takes_native_snapshots(name: str) -> bool | None:
    """Return whether a backend supports native snapshots; None if the factory is a function, so it is unknown.

    Raises:
        ConfigurationError: There is no such backend.
    """
    factory = _factory(name)
    if not isinstance(factory, type) or not issubclass(factory, KeyedStateBackend):
        return None
    return factory.snapshot_native is not KeyedStateBackend.snapshot_native


def _factory(name: str) -> Callable[..., object]:
    path = _BACKENDS.get(name, name)
    module_name, colon, attributes = path.partition(":")
    if not colon:
        module_name, _, attributes = path.rpartition(".")
    if not module_name:
        raise _refused(name, "it is neither a name nor the path of a factory")
    found: Any
    try:
        found = importlib.import_module(module_name)
    except Exception as error:  # a module of the job may fail in any way
        raise _refused(name, f"{module_name} can't be imported: {type(error).__name__}: {error}") from error
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise _refused(name, f"{module_name} has no {attributes!r}")
        found = getattr(found, attribute)
    is_class = isinstance(found, type)
    if not callable(found) or (is_class and not issubclass(found, KeyedStateBackend)):
        raise _refused(name, "it is neither a subclass of KeyedStateBackend nor a function that makes one")
    factory: Callable[..., object] = found
    return factory


def _refused(name: str, why: str) -> ConfigurationError:
    message = f"There is no state backend {name!r}: {why}."
    near = nearest_name(name, _BACKENDS)
    allowed = f"allowed: {', '.join(state_backend_names())} or the path of a factory, package.module:Class"
    hint = f"{allowed}; did you mean {near!r}?" if near else allowed
    return ConfigurationError(message, where=StateBackendOptions.STATE_BACKEND.key, hint=hint)
