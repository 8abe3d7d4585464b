"""Windows at work: which state they have, when they fire, how they merge."""
