"""State whose values expire: timestamps in values, the states over them, and the clean-up."""
