"""What a subtask writes into a checkpoint, and takes from one."""
