"""The consistency of checkpoints, under the module name PyFlink has it."""

from pystate.common.options import CheckpointingMode

__all__ = ["CheckpointingMode"]
