"""Operations: the job manager with its REST server, and tools for snapshots."""
