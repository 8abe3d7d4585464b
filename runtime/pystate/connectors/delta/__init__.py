"""Delta tables, which Spark reads and writes."""
