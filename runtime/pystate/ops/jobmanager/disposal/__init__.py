"""Deletion of savepoints: who still needs one, and threads for storages that may not answer."""
