"""Settings taken over from a Flink."""
