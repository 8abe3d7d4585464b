"""The retention of a cancelled job's checkpoints, under PyFlink's module name."""

from pystate.common.configuration.groups.checkpointing_options import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointRetention"]
