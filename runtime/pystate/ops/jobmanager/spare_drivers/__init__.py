"""Drivers that are warm and have no job yet."""
