"""The checkpoint protocol: its rules, without threads, and the coordinator that executes them."""
