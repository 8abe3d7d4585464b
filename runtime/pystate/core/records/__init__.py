"""Conversion of elements to Arrow columns and back, for all channels."""
