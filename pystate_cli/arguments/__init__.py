"""What stands behind a command's name: shared options, words that mean jobs and savepoints, their completion."""
