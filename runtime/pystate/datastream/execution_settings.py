"""The settings of a program that apply to all its steps, their state, and the processes that run them."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingMode, CheckpointingOptions
from pystate.common.configuration.groups.deployment_options import PythonOptions
from pystate.common.configuration.groups.execution_options import (
    CoreOptions,
    ExecutionOptions,
    PipelineOptions,
    RuntimeExecutionMode,
)
from pystate.common.execution_config import ExecutionConfig
from pystate.datastream.checkpoint_config import CheckpointConfig
from pystate.datastream.state_backend import StateBackend, state_backend_of

SelfSettings = TypeVar("SelfSettings", bound="ExecutionSettings")

_CHAINING = "pipeline.operator-chaining.enabled"
_CHAINING_BEFORE = "pipeline.operator-chaining"
_CHAINING_OF_OTHERS = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
_CHANGELOG = "state.changelog.enabled"


class ExecutionSettings:
    """The settings of a program.

    They override the command line, which overrides the file, as in Flink. Settings without effect here are kept, so that
    they can be read again, and the job reports at its start why they have none.

    Args:
        configuration: The configuration of file and command line.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._config = ExecutionConfig(configuration)
        self._notices: list[str] = []
        self._state_backend: StateBackend | None = None

    def get_config(self) -> ExecutionConfig:
        """Return the execution configuration, which can be modified."""
        return self._config

    def configure(self, configuration: Configuration) -> None:
        """Apply every option that is set in `configuration`."""
        self._configuration.add_all(configuration)

    def get_configuration(self) -> Configuration:
        """Return the effective options (changes to them apply)."""
        return self._configuration

    def set_parallelism(self: SelfSettings, parallelism: int) -> SelfSettings:
        """Set the number of subtasks of every operator that doesn't set its own."""
        self._configuration.set(CoreOptions.DEFAULT_PARALLELISM, parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the number of subtasks of every operator that doesn't set its own."""
        return int(self._configuration.get(CoreOptions.DEFAULT_PARALLELISM))

    def set_max_parallelism(self: SelfSettings, max_parallelism: int) -> SelfSettings:
        """Set the number of key groups, which is fixed for the lifetime of the state."""
        self._configuration.set(PipelineOptions.MAX_PARALLELISM, max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups; -1 if the runtime chooses it."""
        return int(self._configuration.get(PipelineOptions.MAX_PARALLELISM))

    def set_runtime_mode(self: SelfSettings, execution_mode: RuntimeExecutionMode) -> SelfSettings:
        """Set whether results are updated continuously (STREAMING), or are final results of bounded input (BATCH)."""
        self._configuration.set(ExecutionOptions.RUNTIME_MODE, execution_mode)
        return self

    def enable_checkpointing(
        self: SelfSettings,
        interval: int | None = None,
        mode: CheckpointingMode | None = None,
        force: bool | None = None,
    ) -> SelfSettings:
        """Take a checkpoint every `interval` milliseconds.

        Args:
            interval: 500 ms by default, as in Flink's oldest form of this method; the job reports it at its start.
            mode: The consistency of checkpoints.
            force: Has no effect, which the job reports; in Flink it allowed checkpoints of iterations.
        """
        if interval is None:
            interval = 500
            self._notices.append("enable_checkpointing() names no interval: it is 500 ms")
        if force is not None:
            self._notices.append("enable_checkpointing(force=...) has no effect: there are no iterations")
        self._configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, interval)
        if mode is not None:
            self._configuration.set(CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE, mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the checkpointing options, which can be modified."""
        return CheckpointConfig(self._configuration)

    def set_state_backend(self: SelfSettings, state_backend: StateBackend) -> SelfSettings:
        """Set where keyed state is kept, regardless of command line and file.

        Raises:
            ConfigurationError: A value of the backend is not allowed.
        """
        state_backend.apply_to(self._configuration)
        self._state_backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend:
        """Return the backend that was set, else that of command line and file."""
        return self._state_backend or state_backend_of(self._configuration)

    def set_default_savepoint_directory(self: SelfSettings, directory: str) -> SelfSettings:
        """Set the default directory of savepoints."""
        self._configuration.set(CheckpointingOptions.SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return the default directory of savepoints; None if there is none."""
        return self._configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY)

    def get_checkpoint_interval(self) -> int:
        """Return the time between periodic checkpoints, ms; -1 if they are disabled."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the consistency of checkpoints."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return the consistency of checkpoints."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return the value that was set; it has no effect."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return the value that was set; it has no effect."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self: SelfSettings, enabled: bool) -> SelfSettings:
        """Write state changes to a log as they are made; has no effect."""
        self._configuration.set_boolean(_CHANGELOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return the value that was set, None for none; it has no effect."""
        return self._configuration.get_boolean(_CHANGELOG, False) if self._configuration.contains_key(_CHANGELOG) else None

    # -- Python and Java

    def add_python_file(self, file_path: str) -> None:
        """Ship a file or a folder of Python code to the workers; call it before the first use of Spark.

        Args:
            file_path: A .py, .zip, .egg or .whl file, or a folder.
        """
        self._append(PythonOptions.PYTHON_FILES.key, file_path)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Set packages to install on the workers; has no effect."""
        folder = [] if requirements_cache_dir is None else [requirements_cache_dir]
        self._configuration.set_string("python.requirements", "#".join([requirements_file_path, *folder]))

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpack an archive on the workers; call it before the first use of Spark.

        Args:
            archive_path: A .zip, .jar, .tar.gz, .tgz or .tar file.
            target_dir: The folder below the working directory; None for the name of the archive.
        """
        self._append(
            PythonOptions.PYTHON_ARCHIVES.key, archive_path if target_dir is None else f"{archive_path}#{target_dir}"
        )

    def set_python_executable(self, python_exec: str) -> None:
        """Set the Python of the workers; call it before the first use of Spark."""
        self._configuration.set(PythonOptions.PYTHON_EXECUTABLE, python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Add files with Java classes; has no effect: use `spark.jars` for Spark's sources."""
        self._append("pipeline.jars", *jars_path, between=";")

    def add_classpaths(self, *classpaths: str) -> None:
        """Add class paths of Java; has no effect: use `spark.jars` for Spark's sources."""
        self._append("pipeline.classpaths", *classpaths, between=";")

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Register a file for functions; has no effect: use `add_python_archive` to ship data to the workers."""
        text = f"name:{name},path:{file_path},executable:{str(executable).lower()}"
        self._append("pipeline.cached-files", text, between=";")

    # -- Flink's network and slots

    def set_buffer_timeout(self: SelfSettings, timeout_millis: int) -> SelfSettings:
        """Set how long results may be buffered, ms, on the real-time engine.

        Args:
            timeout_millis: 0 for not at all, -1 for until an output buffer is full.
        """
        enabled = timeout_millis >= 0
        self._configuration.set(ExecutionOptions.BUFFER_TIMEOUT_ENABLED, enabled)
        if enabled:
            self._configuration.set(ExecutionOptions.BUFFER_TIMEOUT, timeout_millis)
        return self

    def get_buffer_timeout(self) -> int:
        """Return how long results may be buffered on the real-time engine, ms; -1 for until a buffer is full."""
        if not self._configuration.get(ExecutionOptions.BUFFER_TIMEOUT_ENABLED):
            return -1
        return int(self._configuration.get(ExecutionOptions.BUFFER_TIMEOUT))

    def disable_operator_chaining(self: SelfSettings) -> SelfSettings:
        """Disable operator chaining; has no effect."""
        self._configuration.set_boolean(_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Return the value that was set; it has no effect."""
        return self._configuration.get_boolean(_CHAINING, self._configuration.get_boolean(_CHAINING_BEFORE, True))

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Return the value that was set; it has no effect."""
        return self._configuration.get_boolean(_CHAINING_OF_OTHERS, True)

    def register_slot_sharing_group(self: SelfSettings, slot_sharing_group: Any) -> SelfSettings:
        """Register the resources of a slot sharing group; has no effect."""
        self._notices.append("register_slot_sharing_group() has no effect: a slot runs a subtask of every step")
        return self

    def get_default_local_parallelism(self) -> int:
        """Return the number of cores of this machine; it has no effect."""
        return os.cpu_count() or 1

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the default parallelism; has no effect."""
        self._notices.append("set_default_local_parallelism() has no effect: set_parallelism() sets that of the job")

    def _append(self, key: str, *values: str, between: str = ",") -> None:
        before = self._configuration.get_string(key, "")
        self._configuration.set_string(key, between.join([*([before] if before else []), *values]))
