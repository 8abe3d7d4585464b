"""The real-time engine in the driver: its query, barriers at its sources, the ends of its streams."""
