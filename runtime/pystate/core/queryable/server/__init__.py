"""The slot side of queryable state: the registry of states, and the server for requests."""
