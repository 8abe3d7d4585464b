"""The micro-batch engine: one query of Spark, whose batches are epochs."""
