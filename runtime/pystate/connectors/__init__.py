"""Interfaces of sources and sinks, and the connectors that need no Spark."""
