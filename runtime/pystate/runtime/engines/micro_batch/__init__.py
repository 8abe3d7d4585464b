"""The micro-batch engine: one Spark streaming query whose batches are epochs."""
