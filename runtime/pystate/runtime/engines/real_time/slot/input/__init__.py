"""The input of a subtask: channels, what waits in them, and the treatment of their barriers."""
