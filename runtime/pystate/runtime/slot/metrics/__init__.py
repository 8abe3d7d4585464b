"""The metrics of a subtask."""
