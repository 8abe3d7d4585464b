"""The output of a subtask: which subtask gets a row, and when it is sent."""
