"""What sources and sinks are made of, and those that need no Spark."""
