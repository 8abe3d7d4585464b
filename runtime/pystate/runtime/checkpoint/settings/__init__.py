"""The checkpointing options: reading, displaying, and notices."""
