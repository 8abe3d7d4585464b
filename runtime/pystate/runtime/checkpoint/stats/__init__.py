"""Statistics of a job's checkpoints: of each one, summaries, and the file that outlives the driver."""
