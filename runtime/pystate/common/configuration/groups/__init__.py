"""The options by subject, a class or some per module."""
