"""Iceberg tables, by pyiceberg."""
