"""Runs jobs: plans, checkpoints, slots, drivers, Spark applications, and the two engines."""
