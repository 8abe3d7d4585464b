"""Where snapshots lie: storages, local copies, shared folders, ownership."""
