"""Files of an installation: its home, small files written whole, permissions."""
