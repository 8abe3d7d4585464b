"""The project templates of `pystate new`, one module each."""
