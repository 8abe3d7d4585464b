"""The files of a job's folder: their content, writers, and legal changes."""
