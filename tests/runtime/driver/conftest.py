"""What tests of the driver share with those of checkpoints."""

from tests.runtime.checkpoint.conftest import bench, parts

__all__ = ["bench", "parts"]
