"""State handles: where the bytes of a piece of state are, and their checksums."""
