"""What tests of engines share with those of checkpoints."""

from tests.runtime.checkpoint.conftest import bench, parts

__all__ = ["bench", "parts"]
