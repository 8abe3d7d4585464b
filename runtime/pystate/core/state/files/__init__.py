"""The files of state, readable by every backend."""
