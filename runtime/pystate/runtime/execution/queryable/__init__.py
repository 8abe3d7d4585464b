"""Queryable state in the driver: where states are, and the proxy that clients ask."""
