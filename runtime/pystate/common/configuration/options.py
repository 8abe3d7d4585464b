"""The options this runtime knows, in groups with Flink's class and constant names.

Only keys that are honoured stand here: a key that changes nothing is refused like a misspelt one. `conf/flink-conf.toml` is
generated from these definitions.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from typing import Any

from pystate.common.configuration.config_option import ConfigOption, options_of
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions, StateRecoveryOptions
from pystate.common.configuration.groups.deployment_options import DeploymentOptions, PythonOptions
from pystate.common.configuration.groups.execution_options import CoreOptions, ExecutionOptions, PipelineOptions
from pystate.common.configuration.groups.file_system_options import (
    FileSystemOptions,
    HdfsOptions,
    KerberosOptions,
    S3Options,
    StorageOptions,
)
from pystate.common.configuration.groups.job_manager_options import (
    HeartbeatManagerOptions,
    HighAvailabilityOptions,
    JobManagerOptions,
)
from pystate.common.configuration.groups.metric_options import PrometheusReporterOptions
from pystate.common.configuration.groups.pystate_options import PystateOptions, SparkOptions
from pystate.common.configuration.groups.queryable_state_options import QueryableStateOptions
from pystate.common.configuration.groups.restart_strategy_options import RestartStrategyOptions
from pystate.common.configuration.groups.rocksdb_metric_options import RocksDBNativeMetricOptions
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.configuration.groups.service_options import ClientOptions, RestOptions, WebOptions
from pystate.common.configuration.groups.sink_options import SinkOptions
from pystate.common.configuration.groups.state_backend_options import RocksDBOptions, StateBackendOptions
from pystate.common.errors import ConnectorError

SPARK_PREFIX = "spark."
"""Keys that begin so are handed to Spark as they are."""

GROUP = "pystate.options"
"""The entry points of the options of connectors in other distributions."""


OPTION_GROUPS: tuple[type, ...] = (
    StateBackendOptions,
    RocksDBOptions,
    RocksDBNativeMetricOptions,
    CheckpointingOptions,
    StateRecoveryOptions,
    RestartStrategyOptions,
    CoreOptions,
    PipelineOptions,
    DeploymentOptions,
    PythonOptions,
    ExecutionOptions,
    SinkOptions,
    QueryableStateOptions,
    ClientOptions,
    RestOptions,
    SecurityOptions,
    WebOptions,
    PrometheusReporterOptions,
    JobManagerOptions,
    HeartbeatManagerOptions,
    HighAvailabilityOptions,
    FileSystemOptions,
    StorageOptions,
    S3Options,
    HdfsOptions,
    KerberosOptions,
    SparkOptions,
    PystateOptions,
)
"""The groups in the order of `conf/flink-conf.toml`."""


ALL_OPTIONS: dict[str, ConfigOption[Any]] = {option.key: option for group in OPTION_GROUPS for option in options_of(group)}
"""Key -> option; older names, and the options of connectors, are not in it."""

_FALLBACKS: dict[str, str] = {old: option.key for option in ALL_OPTIONS.values() for old in option.fallback_keys}


@lru_cache(maxsize=1)
def connector_options() -> dict[str, ConfigOption[Any]]:
    """Return the options by key. Asked only about keys that are none of pystate's, since it looks through the whole path.

    Raises:
        ConnectorError: An entry point can't be loaded, or has an option that doesn't begin with its name.
    """
    from importlib.metadata import entry_points  # many modules, for processes that never ask

    found: dict[str, ConfigOption[Any]] = {}
    for point in entry_points(group=GROUP):
        of = "an unknown distribution" if point.dist is None else point.dist.name
        where = f"entry point {point.name} = {point.value} of {of}"
        try:
            options = options_of(point.load())
        except Exception as error:  # what another distribution's module may raise
            message = f"The options of {point.name!r} can't be loaded: {type(error).__name__}: {error}"
            raise ConnectorError(
                message, where=where, hint=f"pip install --force-reinstall {of}, or pip uninstall {of}"
            ) from error
        for option in options:
            if not option.key.startswith(f"{point.name}."):
                message = f"The option {option.key!r} of {of} doesn't begin with {point.name!r}."
                raise ConnectorError(message, where=where, hint=f"have its author call it {point.name}.{option.key}")
            found[option.key] = option
    return found


def canonical_key(key: str) -> str:
    """Return today's name of a key; the key itself where it isn't an older name."""
    return _FALLBACKS.get(key, key)


def option_of(key: str) -> ConfigOption[Any] | None:
    """Return the option of a key, pystate's or a connector's; None for older names, Spark's and other keys.

    Raises:
        ConnectorError: A connector can't be loaded.
    """
    if key.startswith(SPARK_PREFIX) or key in _FALLBACKS:
        return ALL_OPTIONS.get(key)
    return ALL_OPTIONS.get(key) or connector_options().get(key)


def every_option() -> dict[str, ConfigOption[Any]]:
    """Return all options by key, those of connectors last.

    Raises:
        ConnectorError: A connector can't be loaded.
    """
    return {**ALL_OPTIONS, **connector_options()}


def is_known(key: str) -> bool:
    """Return whether the key is an option, an older name of one, or Spark's.

    Raises:
        ConnectorError: A connector can't be loaded.
    """
    if key in ALL_OPTIONS or key in _FALLBACKS or (key.startswith(SPARK_PREFIX) and len(key) > len(SPARK_PREFIX)):
        return True
    return key in connector_options()


def nearest_key(key: str) -> str | None:
    """Return the known key that looks most like `key`; None where none is near."""
    wanted = key.lower().replace("_", "-")
    candidates = [*every_option(), *_FALLBACKS]
    found = difflib.get_close_matches(wanted, candidates, n=1, cutoff=0.6)
    if found:
        return canonical_key(found[0])
    last = wanted.rpartition(".")[2]
    same_end = [candidate for candidate in ALL_OPTIONS if candidate.rpartition(".")[2] == last]
    return same_end[0] if len(same_end) == 1 else None
