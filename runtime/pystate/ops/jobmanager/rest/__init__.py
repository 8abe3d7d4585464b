"""The job manager's REST API: Flink's routes, and those of pystate below `/pystate`."""
