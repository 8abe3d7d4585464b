"""The plan of a job, independent of Spark: tasks, their chains and outputs, and where they run."""
