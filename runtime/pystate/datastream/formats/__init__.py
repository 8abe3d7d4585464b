"""File formats a job author names."""
