"""Spark's Python workers: what is shipped to them, and how they live and end."""
