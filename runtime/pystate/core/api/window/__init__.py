"""What windows are made of: windows, assigners, triggers, evictors, functions of windows."""
