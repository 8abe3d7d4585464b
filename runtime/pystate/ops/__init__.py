"""Operates jobs: the job manager with its REST server, and what people ask of snapshots."""
