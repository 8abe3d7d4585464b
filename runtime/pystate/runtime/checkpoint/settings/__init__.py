"""The checkpointing options: how they are read, shown, and commented on."""
