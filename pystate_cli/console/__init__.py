"""What is printed, and how: stdout and stderr, a terminal's live lines, numbers and keys as they are written."""
