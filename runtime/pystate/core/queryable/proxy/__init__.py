"""Queryable state in the driver: the locations of states, and the proxy for clients."""
