"""Formats, under PyFlink's module names."""
