"""The settings of a program: what it says of all its steps, of their state, and of the processes they run in."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.deployment_options import PythonOptions
from pystate.common.configuration.execution_options import ExecutionOptions, PipelineOptions, RuntimeExecutionMode
from pystate.common.configuration.options import CheckpointingMode, CheckpointingOptions, CoreOptions
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

    They go above the command line, which goes above the file, as in Flink. What has no effect here is kept, so that it can
    be read again, and the job says at its start why it has none.

    Args:
        configuration: What file and command line say.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._config = ExecutionConfig(configuration)
        self._notices: list[str] = []
        self._state_backend: StateBackend | None = None

    def get_config(self) -> ExecutionConfig:
        """Return the settings of the run, to read and to set."""
        return self._config

    def configure(self, configuration: Configuration) -> None:
        """Take over every option that is set in `configuration`."""
        self._configuration.add_all(configuration)

    def get_configuration(self) -> Configuration:
        """Return the options in force (changes to it count)."""
        return self._configuration

    def set_parallelism(self: SelfSettings, parallelism: int) -> SelfSettings:
        """Set the number of subtasks of every operator that doesn't set its own."""
        self._configuration.set(CoreOptions.DEFAULT_PARALLELISM, parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the number of subtasks of every operator that doesn't set its own."""
        return int(self._configuration.get(CoreOptions.DEFAULT_PARALLELISM))

    def set_max_parallelism(self: SelfSettings, max_parallelism: int) -> SelfSettings:
        """Set the number of key groups; fixed for the life of the state."""
        self._configuration.set(PipelineOptions.MAX_PARALLELISM, max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups, -1 where it is left to the runtime."""
        return int(self._configuration.get(PipelineOptions.MAX_PARALLELISM))

    def set_runtime_mode(self: SelfSettings, execution_mode: RuntimeExecutionMode) -> SelfSettings:
        """Set whether results are updated while input comes (STREAMING), or are final ones of input with an end (BATCH)."""
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
            interval: Without it, it is 500 ms as in Flink's oldest form of this method; the job says so at its start.
            mode: The consistency of checkpoints.
            force: Without effect, and said to be; in Flink it allowed checkpoints of iterations.
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
        """Return the checkpointing options, to read and to set."""
        return CheckpointConfig(self._configuration)

    def set_state_backend(self: SelfSettings, state_backend: StateBackend) -> SelfSettings:
        """Set where keyed state lives, whatever command line and file say.

        Raises:
            ConfigurationError: One of the backend's values is not allowed.
        """
        state_backend.apply_to(self._configuration)
        self._state_backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend:
        """Return the backend that was set, else the one that command line and file stand for."""
        return self._state_backend or state_backend_of(self._configuration)

    def set_default_savepoint_directory(self: SelfSettings, directory: str) -> SelfSettings:
        """Set where savepoints go whose command names no directory."""
        self._configuration.set(CheckpointingOptions.SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return where savepoints go whose command names no directory; None for nowhere."""
        return self._configuration.get(CheckpointingOptions.SAVEPOINT_DIRECTORY)

    def get_checkpoint_interval(self) -> int:
        """Return the time between periodic checkpoints, ms; -1 where they are off."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the consistency of checkpoints."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return the consistency of checkpoints."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return what was set; it has no effect."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return what was set; it has no effect."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self: SelfSettings, enabled: bool) -> SelfSettings:
        """Write state changes to a log as they are made; has no effect."""
        self._configuration.set_boolean(_CHANGELOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return what was set, None for nothing; it has no effect."""
        return self._configuration.get_boolean(_CHANGELOG, False) if self._configuration.contains_key(_CHANGELOG) else None

    # -- Python and Java

    def add_python_file(self, file_path: str) -> None:
        """Take a file, or a folder, of Python code to the workers; to be called in front of the first use of Spark.

        Args:
            file_path: A .py, .zip, .egg or .whl file, or a folder.
        """
        self._append(PythonOptions.PYTHON_FILES.key, file_path)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Name packages to be installed on the workers; has no effect."""
        folder = [] if requirements_cache_dir is None else [requirements_cache_dir]
        self._configuration.set_string("python.requirements", "#".join([requirements_file_path, *folder]))

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Have an archive unpacked on the workers; to be called in front of the first use of Spark.

        Args:
            archive_path: A .zip, .jar, .tar.gz, .tgz or .tar file.
            target_dir: The folder, below the working folder; None for the archive's name.
        """
        self._append(
            PythonOptions.PYTHON_ARCHIVES.key, archive_path if target_dir is None else f"{archive_path}#{target_dir}"
        )

    def set_python_executable(self, python_exec: str) -> None:
        """Set the Python of the workers; to be called in front of the first use of Spark."""
        self._configuration.set(PythonOptions.PYTHON_EXECUTABLE, python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Name files with Java classes; has no effect: `spark.jars` names those of Spark's sources."""
        self._append("pipeline.jars", *jars_path, between=";")

    def add_classpaths(self, *classpaths: str) -> None:
        """Name places of Java classes; has no effect: `spark.jars` names those of Spark's sources."""
        self._append("pipeline.classpaths", *classpaths, between=";")

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Name a file for functions; has no effect: `add_python_archive` takes data to the workers."""
        text = f"name:{name},path:{file_path},executable:{str(executable).lower()}"
        self._append("pipeline.cached-files", text, between=";")

    # -- Flink's network and slots

    def set_buffer_timeout(self: SelfSettings, timeout_millis: int) -> SelfSettings:
        """Set how long results wait for others, ms, on the real-time engine.

        Args:
            timeout_millis: 0 for not at all, -1 for until an output buffer is full.
        """
        enabled = timeout_millis >= 0
        self._configuration.set(ExecutionOptions.BUFFER_TIMEOUT_ENABLED, enabled)
        if enabled:
            self._configuration.set(ExecutionOptions.BUFFER_TIMEOUT, timeout_millis)
        return self

    def get_buffer_timeout(self) -> int:
        """Return how long results wait for others on the real-time engine, ms; -1 for until an output buffer is full."""
        if not self._configuration.get(ExecutionOptions.BUFFER_TIMEOUT_ENABLED):
            return -1
        return int(self._configuration.get(ExecutionOptions.BUFFER_TIMEOUT))

    def disable_operator_chaining(self: SelfSettings) -> SelfSettings:
        """Let no steps share a task; has no effect."""
        self._configuration.set_boolean(_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Return what was set; it has no effect."""
        return self._configuration.get_boolean(_CHAINING, self._configuration.get_boolean(_CHAINING_BEFORE, True))

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Return what was set; it has no effect."""
        return self._configuration.get_boolean(_CHAINING_OF_OTHERS, True)

    def register_slot_sharing_group(self: SelfSettings, slot_sharing_group: Any) -> SelfSettings:
        """Say what a slot needs; has no effect."""
        self._notices.append("register_slot_sharing_group() has no effect: a slot runs a subtask of every step")
        return self

    def get_default_local_parallelism(self) -> int:
        """Return the number of cores of this machine; it has no effect."""
        return os.cpu_count() or 1

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the parallelism where none is set; has no effect."""
        self._notices.append("set_default_local_parallelism() has no effect: set_parallelism() sets that of the job")

    def _append(self, key: str, *values: str, between: str = ",") -> None:
        before = self._configuration.get_string(key, "")
        self._configuration.set_string(key, between.join([*([before] if before else []), *values]))
