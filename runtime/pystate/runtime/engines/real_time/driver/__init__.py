"""The driver side of the real-time engine: its query, the barriers at its sources, the ends of its streams."""
