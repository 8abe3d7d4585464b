"""The job manager: many jobs, a driver process each, and REST in Flink's shapes."""
