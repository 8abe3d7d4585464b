"""The commands about checkpoints and savepoints."""
