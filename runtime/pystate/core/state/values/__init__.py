"""How values become bytes, type by type, and how types may change."""
