"""What tests of the driver share with those of checkpoints."""

from tests.checkpoint.conftest import bench

__all__ = ["bench"]
