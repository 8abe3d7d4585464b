"""Statistics of a job's checkpoints: what each one took, numbers over all, and the file that outlives the driver."""
