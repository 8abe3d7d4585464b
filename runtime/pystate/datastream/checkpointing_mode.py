"""The consistency of checkpoints, under PyFlink's module name."""

from pystate.common.configuration.groups.checkpointing_options import CheckpointingMode

__all__ = ["CheckpointingMode"]
