"""The job manager's REST: Flink's routes, and ours below `/pystate`."""
