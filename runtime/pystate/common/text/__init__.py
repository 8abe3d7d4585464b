"""Conversion of values to text and plain data."""
