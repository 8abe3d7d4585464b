"""Sources and sinks a job author names."""
