"""Output: stdout and stderr, live regions of a terminal, formats of numbers and keys."""
