"""`ExecutionConfig`: the settings of a program's run, with PyFlink's methods."""

from __future__ import annotations

from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.execution_options import CoreOptions, PipelineOptions

_TRUE, _FALSE = "true", "false"


class ExecutionConfig:
    """The execution settings of a program, returned by `env.get_config()`; each setter returns the object itself.

    What has no effect here is kept, so that it can be read again, and the job says at its start why it has none.

    Args:
        configuration: The environment's options.
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._parameters: dict[str, str] = {}

    def get_parallelism(self) -> int:
        """Return the number of subtasks of every operator that doesn't set its own."""
        return int(self._configuration.get(CoreOptions.DEFAULT_PARALLELISM))

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the number of subtasks of every operator that doesn't set its own; `PARALLELISM_DEFAULT` for the default."""
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(CoreOptions.DEFAULT_PARALLELISM.key)
        elif parallelism != self.PARALLELISM_UNKNOWN:
            self._configuration.set(CoreOptions.DEFAULT_PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups, -1 if it is left to the runtime."""
        return int(self._configuration.get(PipelineOptions.MAX_PARALLELISM))

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups, which can't be changed for existing state."""
        self._configuration.set(PipelineOptions.MAX_PARALLELISM, max_parallelism)
        return self

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Allow stateful steps without a uid."""
        self._configuration.set(PipelineOptions.AUTO_GENERATE_UIDS, True)
        return self

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Reject stateful steps without a uid."""
        self._configuration.set(PipelineOptions.AUTO_GENERATE_UIDS, False)
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        """Return whether stateful steps without a uid are allowed."""
        return bool(self._configuration.get(PipelineOptions.AUTO_GENERATE_UIDS))

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Set whether snapshots are compressed."""
        self._configuration.set(CheckpointingOptions.SNAPSHOT_COMPRESSION, use_snapshot_compression)
        return self

    def is_use_snapshot_compression(self) -> bool:
        """Return whether snapshots are compressed."""
        return bool(self._configuration.get(CheckpointingOptions.SNAPSHOT_COMPRESSION))

    def set_global_job_parameters(self, global_job_parameters_dict: dict[str, Any]) -> ExecutionConfig:
        """Set parameters of the program, which functions read by `RuntimeContext.get_job_parameter`."""
        for key, value in global_job_parameters_dict.items():
            self._configuration.set_string(key, str(value))
        self._parameters.update({key: str(value) for key, value in global_job_parameters_dict.items()})
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that were set."""
        return dict(self._parameters)

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Clean closures; has no effect."""
        self._configuration.set_string("pipeline.closure-cleaner-level", "RECURSIVE")
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Leave closures as they are; has no effect."""
        self._configuration.set_string("pipeline.closure-cleaner-level", "NONE")
        return self

    def is_closure_cleaner_enabled(self) -> bool:
        """Return what was set."""
        return self._configuration.get_string("pipeline.closure-cleaner-level", "RECURSIVE") == "RECURSIVE"

    def enable_force_kryo(self) -> ExecutionConfig:
        """Write values with Kryo; has no effect."""
        self._configuration.set_string("pipeline.force-kryo", _TRUE)
        return self

    def disable_force_kryo(self) -> ExecutionConfig:
        """Don't write values with Kryo; has no effect."""
        self._configuration.set_string("pipeline.force-kryo", _FALSE)
        return self

    def is_force_kryo_enabled(self) -> bool:
        """Return what was set."""
        return self._configuration.get_string("pipeline.force-kryo", _FALSE) == _TRUE

    def enable_force_avro(self) -> ExecutionConfig:
        """Write values with Avro; has no effect."""
        self._configuration.set_string("pipeline.force-avro", _TRUE)
        return self

    def disable_force_avro(self) -> ExecutionConfig:
        """Don't write values with Avro; has no effect."""
        self._configuration.set_string("pipeline.force-avro", _FALSE)
        return self

    def is_force_avro_enabled(self) -> bool:
        """Return what was set."""
        return self._configuration.get_string("pipeline.force-avro", _FALSE) == _TRUE

    def enable_generic_types(self) -> ExecutionConfig:
        """Allow generic types; has no effect."""
        self._configuration.set_string("pipeline.generic-types", _TRUE)
        return self

    def disable_generic_types(self) -> ExecutionConfig:
        """Forbid generic types; has no effect."""
        self._configuration.set_string("pipeline.generic-types", _FALSE)
        return self

    def has_generic_types_disabled(self) -> bool:
        """Return whether they were forbidden."""
        return self._configuration.get_string("pipeline.generic-types", _TRUE) == _FALSE

    def enable_object_reuse(self) -> ExecutionConfig:
        """Pass the same object to all functions of a task, which must not modify it."""
        self._configuration.set(PipelineOptions.OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Pass copies to the functions of a task, so that each may modify its own."""
        self._configuration.set(PipelineOptions.OBJECT_REUSE, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """Return what was set."""
        return bool(self._configuration.get(PipelineOptions.OBJECT_REUSE))

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Set the interval of watermarks, ms; has an effect on the real-time engine."""
        self._configuration.set(PipelineOptions.AUTO_WATERMARK_INTERVAL, interval)
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return the interval of watermarks as set, ms."""
        return int(self._configuration.get(PipelineOptions.AUTO_WATERMARK_INTERVAL))

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Set the interval of latency tracking, ms; has no effect."""
        self._configuration.set_string("metrics.latency.interval", f"{interval} ms")
        return self

    def get_latency_tracking_interval(self) -> int:
        """Return the interval of latency tracking as set, ms."""
        return self._millis("metrics.latency.interval", 0)

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Set the interval between attempts to cancel a task, ms; has no effect."""
        self._configuration.set_string("task.cancellation.interval", f"{interval} ms")
        return self

    def get_task_cancellation_interval(self) -> int:
        """Return the interval between attempts to cancel a task as set, ms."""
        return self._millis("task.cancellation.interval", 30000)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Set how long a task may take to be cancelled, ms; has no effect."""
        self._configuration.set_string("task.cancellation.timeout", f"{timeout} ms")
        return self

    def get_task_cancellation_timeout(self) -> int:
        """Return how long a task may take to be cancelled as set, ms."""
        return self._millis("task.cancellation.timeout", 180000)

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Return an empty result: there is no Kryo."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Return an empty result: there is no Kryo."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Return an empty result: there are no Java objects."""
        return []

    def _millis(self, key: str, default: int) -> int:
        text = self._configuration.get_string(key, "")
        return int(text.removesuffix(" ms")) if text else default
