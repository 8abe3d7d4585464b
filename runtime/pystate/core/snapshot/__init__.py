"""Checkpoints and savepoints: metadata, handles, files, locations."""
