"""The storage of snapshots: locations, local copies, shared folders, ownership."""
