"""The micro-batch engine in the driver: one query of Spark, whose batches are epochs."""
