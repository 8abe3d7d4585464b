"""The execution of windows: their state, when they fire, how they merge."""
