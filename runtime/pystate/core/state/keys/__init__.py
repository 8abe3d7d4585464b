"""Keys and namespaces of state, and their bytes."""
