"""The filesystems for snapshots: resolving locations, and atomic creation of files."""
