"""One job: coordinator, restart loop, control endpoint."""
