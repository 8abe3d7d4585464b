"""File formats: CSV, JSON, text and Parquet, read and written."""
