"""Tools for snapshots: list, lineage, contents, verification, garbage collection."""
