"""Long-running commands: an attached job, a start, a rescale, a triggered operation."""
