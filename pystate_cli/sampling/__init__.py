"""A job looked at again and again: figures over time for the live views."""
