"""What a subtask measures."""
