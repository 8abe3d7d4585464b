"""The window API: windows, assigners, triggers, evictors, window functions."""
