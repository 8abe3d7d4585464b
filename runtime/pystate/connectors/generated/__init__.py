"""Sources of what a program says itself: collections, ranges of numbers, generated elements."""
