"""Elements as Arrow columns and back: what crosses a channel, whoever carries it."""
