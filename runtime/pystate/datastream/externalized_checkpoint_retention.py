"""The retention of a cancelled job's checkpoints, under PyFlink's module name."""

from pystate.common.configuration.checkpointing_options import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointRetention"]
