"""State with a time to live: timestamps in values, the states over them, and the clean-up."""
