"""The consistency of checkpoints, under PyFlink's module name."""

from pystate.common.configuration.checkpointing_options import CheckpointingMode

__all__ = ["CheckpointingMode"]
