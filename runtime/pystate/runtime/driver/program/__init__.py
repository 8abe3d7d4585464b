"""Analysis of a program before it runs: its mode, its plan, its fingerprint, and early checks."""
