"""Files of an installation: its home, atomically written small files, permissions."""
