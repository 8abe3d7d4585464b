"""Spark applications: their cores, where they run, and how executors are lost."""
