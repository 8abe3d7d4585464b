"""The driver side of the micro-batch engine: one Spark streaming query whose batches are epochs."""
