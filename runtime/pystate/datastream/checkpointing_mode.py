"""The consistency of checkpoints, under the module name PyFlink has it."""

from pystate.common.configuration.options import CheckpointingMode

__all__ = ["CheckpointingMode"]
