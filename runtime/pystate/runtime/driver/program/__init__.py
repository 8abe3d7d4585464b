"""A program before it runs: its mode, its plan, its fingerprint, and what can be told of it early."""
