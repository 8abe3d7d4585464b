"""What goes on while a command waits: an attached job, a start, a rescale, an operation that was triggered."""
