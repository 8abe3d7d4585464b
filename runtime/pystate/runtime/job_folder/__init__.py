"""The files of a job's folder: what stands in each, who writes it, and what it may become."""
