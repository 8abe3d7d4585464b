"""What commands show of checkpoints and savepoints."""
