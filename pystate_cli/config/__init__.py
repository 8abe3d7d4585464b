"""Import of Flink's settings."""
