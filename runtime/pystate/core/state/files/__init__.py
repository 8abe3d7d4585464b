"""The files that state is written to, readable by every backend."""
