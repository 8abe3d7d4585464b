"""The sink of files: buckets of part files that appear when a checkpoint completes."""
