"""Periodic sampling of a job for the live views."""
