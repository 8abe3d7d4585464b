"""The driver of one job: coordinator, restart loop, control endpoint."""
