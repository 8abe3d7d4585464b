"""Arguments of commands: shared options, selection of jobs and savepoints, shell completion."""
