"""The checkpoint protocol: its rules, free of threads, and the coordinator that acts on them."""
