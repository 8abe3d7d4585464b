"""What becomes of a cancelled job's checkpoints, under the module name PyFlink has it."""

from pystate.common.configuration.options import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointRetention"]
