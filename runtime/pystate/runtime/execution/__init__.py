"""One attempt of a job in its driver: its slots, their restored state, and the interface to an engine."""
